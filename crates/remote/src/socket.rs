//! Socket options of both sides, and waiting for a socket.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// After this time without data, the kernel probes whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

/// Turns on sending without delay, and keepalive, which detects a peer whose machine is gone.
pub(crate) fn prepare(s: &TcpStream) -> io::Result<()> {
    s.set_nodelay(true)?;
    sockopt::set_socket_keepalive(s, true)?;
    sockopt::set_tcp_keepidle(s, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(s, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(s, KEEPALIVE_COUNT)?;
    Ok(())
}

/// Waits at most `timeout` until the socket is readable (or, with `write`, writable), and returns whether it is.
pub(crate) fn wait(s: &impl std::os::fd::AsFd, write: bool, timeout: Duration) -> io::Result<bool> {
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, write);
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut [PollFd::new(s, flags)], Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        // A signal interrupted the wait. The caller checks the socket and waits again.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
