//! Sockets: what both sides set, and waiting for one.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// A peer that says nothing for so long is asked by the kernel whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

/// Sends at once, and finds out about a peer whose machine went away.
pub(crate) fn prepare(s: &TcpStream) -> io::Result<()> {
    s.set_nodelay(true)?;
    sockopt::set_socket_keepalive(s, true)?;
    sockopt::set_tcp_keepidle(s, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(s, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(s, KEEPALIVE_COUNT)?;
    Ok(())
}

/// Waits until something can be read (or, with `write`, written), at most so long; answers whether it can.
pub(crate) fn wait(s: &impl std::os::fd::AsFd, write: bool, timeout: Duration) -> io::Result<bool> {
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, write);
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut [PollFd::new(s, flags)], Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        // A signal: whoever waits looks again.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
