//! How a drive is served.

use std::sync::Arc;
use std::time::Duration;

/// How a drive is served.
#[derive(Clone)]
pub struct ServerOptions {
    /// The most connections, and the most channels of a client.
    pub connections_max: u32,
    /// The longest time to wait for a hello, for the rest of a frame that has begun (a second more for each MB), and
    /// for a client to read what is sent to it.
    pub patience: Duration,
    /// How long the server waits for a client without a connection.
    pub lease: Duration,
    /// The bytes of answers not yet received by the client, beyond which a channel executes nothing more.
    pub answer_bytes: usize,
    /// The time since some moment. The caller passes the clock in, because this crate reads none.
    pub now: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl ServerOptions {
    /// The defaults, with a clock.
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
