//! How a drive is served.

use std::sync::Arc;
use std::time::Duration;

/// How a drive is served.
#[derive(Clone)]
pub struct ServerOptions {
    /// Most connections, and most channels of a client.
    pub connections_max: u32,
    /// Most time for a hello, for the rest of a frame that has begun (a second more for each MB), and for a client to take
    /// what is sent to it.
    pub patience: Duration,
    /// How long a client without a connection is waited for.
    pub lease: Duration,
    /// Bytes of answers that a client has not taken, beyond which nothing more is carried out for its channel.
    pub answer_bytes: usize,
    /// Time since some moment: the root has the clock.
    pub now: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl ServerOptions {
    /// What goes for most, with a clock.
    pub fn new(now: Arc<dyn Fn() -> Duration + Send + Sync>) -> Self {
        Self {
            connections_max: 256,
            patience: Duration::from_secs(30),
            lease: Duration::from_secs(120),
            answer_bytes: 2 << 20,
            now,
        }
    }
}
