//! How a queue recovers from a broken connection.
//!
//! ```text
//!   the same opening of the drive: the channel is still there ─► operations that did not arrive are sent again;
//!                                                               answers that did not arrive come again
//!   a later opening: only the durable state is left ─► ask for the highest number that each session applied, then
//!       a batch whose number was applied          is answered with the recovered commit and the recovered view
//!       a batch whose number was not applied      is sent again
//!       a task with a partial answer              ends with the error that its view is closed ("snapshot too old")
//!       any other command                         is sent again, or gets that error if its view is closed
//! ```
//!
//! An applied batch may be answered with a later commit than its own. This is safe: between the two commits lie only
//! batches that were under way together with it. No view is left that shows one commit but not the other, because all
//! views closed with the drive. So no caller can tell the difference.
//!
//! If the answer to an allocation is lost, the allocation is repeated with new extents. The first extents then have
//! an owner that does not know of them; the next opening of the database finds and frees them.

use lode_command::wire::Instead;
use lode_command::{
    Command, CommandError, DeviceError, IndexedPage, IndexedRead, Reply, ScanTask, SessionWrite,
};

use super::Pauses;
use super::connection::{Connection, Failure};
use super::queue::{Own, RemoteQueue};
use crate::message::{Hello, OWN_COMMANDS, Refusal, Refused, Welcome};

/// Why a try to reconnect failed.
enum Failed {
    /// A later try may succeed.
    Later(String),
    Gone(DeviceError),
}

impl RemoteQueue {
    /// Tries to connect until the queue has a connection again or the device counts as gone.
    pub(super) fn reconnect(&mut self) -> Result<(), DeviceError> {
        let shared = self.shared.clone();
        let mut pauses = Pauses::new(&shared.options);
        loop {
            shared.check()?;
            let what = match self.try_to_connect() {
                Ok(()) => return Ok(()),
                Err(Failed::Gone(e)) => return Err(e),
                Err(Failed::Later(what)) => what,
            };
            if !pauses.wait() {
                return Err(shared.is_gone(format!("{}: {what}", shared.addr)));
            }
        }
    }

    /// Tries once to attach to the same channel. A queue that ends calls this.
    pub(super) fn try_again(&mut self) -> bool {
        self.channel != 0 && self.shared.check().is_ok() && self.try_to_connect().is_ok()
    }

    fn try_to_connect(&mut self) -> Result<(), Failed> {
        let shared = self.shared.clone();
        let client = shared.client;
        let again = self.channel != 0 && shared.views.lock().opening() == self.opening;
        let (hello, seen) = match again {
            true => {
                let (opening, channel) = (self.opening, self.channel);
                (Hello::Attach { client, opening, channel }, self.answered)
            }
            false => (Hello::Open { client, depth: self.depth + OWN_COMMANDS }, 0),
        };
        let (connection, welcome, received) =
            match Connection::open(&shared.addr, &shared.options, hello, seen) {
                Ok(open) => open,
                Err(Failure::Refused(Refused::Refusal(Refusal::NoChannel(opening)))) => {
                    if opening == self.opening && self.pending.values().any(|p| p.sent) {
                        let what = format!(
                            "{}: the server has dropped this queue while commands were under way",
                            shared.addr
                        );
                        return Err(Failed::Gone(shared.is_gone(what)));
                    }
                    self.channel = 0;
                    return self.try_to_connect();
                }
                Err(Failure::Refused(why)) => {
                    return Err(match shared.refused(&why) {
                        Some(e) => Failed::Gone(e),
                        None => Failed::Later(Failure::Refused(why).to_string()),
                    });
                }
                Err(e) => return Err(Failed::Later(e.to_string())),
            };
        if shared.meet(&welcome).is_err() {
            shared.check().map_err(Failed::Gone)?;
            return Err(Failed::Later("the drive was opened anew".into()));
        }
        self.connection = Some(connection);
        self.pinged = false;
        match again {
            true => {
                self.send_missed(received);
                Ok(())
            }
            false => self.start_over(&welcome).map_err(Failed::Gone),
        }
    }

    /// Sends the operations that the server did not receive.
    fn send_missed(&mut self, received: u64) {
        self.operations.retain(|(n, _)| *n > received);
        let missed = std::mem::take(&mut self.operations);
        for (number, operation) in &missed {
            self.write(*number, operation);
        }
        self.operations = missed;
    }

    /// Starts on a new channel. If the drive was opened anew, it resumes the sessions first.
    fn start_over(&mut self, welcome: &Welcome) -> Result<(), DeviceError> {
        self.channel = welcome.channel;
        self.operations.clear();
        (self.operated, self.answered) = (0, 0);
        (self.untold, self.under_way, self.under_way_bytes) = (0, 0, 0);
        if welcome.opening == self.opening {
            return Ok(());
        }
        self.opening = welcome.opening;
        self.numbering.start_over();
        self.pending.retain(|_, p| p.own.is_none());
        self.unsent.clear();
        self.resumed.clear();
        let mut sessions: Vec<_> = self
            .pending
            .values()
            .filter_map(|p| place(p.sent, p.wsn, &p.command))
            .map(|s| s.session)
            .collect();
        sessions.extend(self.numbering.session());
        sessions.sort_unstable();
        sessions.dedup();
        self.resuming = sessions.len() as u32;
        for session in sessions {
            let command = Command::ResumeSession(session);
            self.send_own(command, Own::ResumeSession(session), Instead::default());
        }
        match self.resuming {
            0 => self.resolve(),
            _ => Ok(()),
        }
    }

    /// Decides about every pending command, once all sessions have answered.
    pub(super) fn resolve(&mut self) -> Result<(), DeviceError> {
        let shared = self.shared.clone();
        let unknown = |what: &str| {
            shared.is_gone(format!("{}: the drive was opened anew, and it is not known {what}", shared.addr))
        };
        if let Some(id) = self.numbering.session() {
            // If the session is no longer open, only the batches under way in it are affected. The loop below answers
            // them.
            self.numbering.resumed(self.resumed.get(&id.raw()).copied().flatten());
        }
        let tags: Vec<u64> = self.pending.keys().copied().collect();
        for tag in tags {
            let p = self.pending.get_mut(&tag).expect("the command is still pending");
            let at = place(p.sent, p.wsn, &p.command);
            let is_applied = match at {
                None => false,
                Some(s) => match self.resumed.get(&s.session.raw()).copied().flatten() {
                    Some(highest) => s.wsn <= highest,
                    None if p.wsn.is_none() => false,
                    None => return Err(unknown("whether a batch was applied")),
                },
            };
            let answer = match &p.command {
                Command::Write(b) if is_applied => {
                    let applied = self.shared.views.lock().applied(b.pin);
                    let (commit, view) =
                        applied.ok_or_else(|| unknown("at which commit a batch was applied"))?;
                    let pages = b.writes.iter().filter(|_| b.answer_entries);
                    Some(Ok(Reply::Committed {
                        commit,
                        view,
                        entries: pages.map(IndexedPage::unknown).collect(),
                    }))
                }
                Command::Write(b) if p.sent && at.is_none() && !b.is_empty() => {
                    return Err(unknown("whether a batch was applied"));
                }
                // The view closed with the drive.
                Command::CloseView(_) if p.sent => Some(Ok(Reply::Done)),
                // What was registered went with the drive.
                Command::RegisterProgram { program: None, .. } | Command::RegisterKeys { rule: None, .. }
                    if p.sent =>
                {
                    Some(Ok(Reply::Done))
                }
                _ if p.cancelled => Some(Err(CommandError::Cancelled)),
                Command::Scan(ScanTask { view, .. }) | Command::ReadIndexed(IndexedRead { view, .. })
                    if p.partly =>
                {
                    Some(Err(CommandError::ViewClosed(*view)))
                }
                _ => None,
            };
            match answer {
                Some(answer) => self.answer(tag, answer),
                None => {
                    p.sent = false;
                    p.wsn = None;
                    p.instead = Instead::default();
                    self.unsent.push_back(tag);
                }
            }
        }
        self.tell_pins();
        let unused = self.shared.views.lock().looked(self.id);
        if let Some(view) = unused {
            let instead = Instead { view: Some(view), session: None };
            self.send_own(Command::CloseView(view), Own::CloseView, instead);
        }
        Ok(())
    }
}

/// The session and number with which a batch was sent.
fn place(sent: bool, wsn: Option<SessionWrite>, c: &Command) -> Option<SessionWrite> {
    match c {
        Command::Write(b) if sent => wsn.or(b.session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use lode_base::wire::Reader;
    use lode_base::{CommitNo, Lpid, PageBuf, SessionId, Split, ViewId, VirtualTime};
    use lode_command::wire::put_completion;
    use lode_command::{
        Align, Batch, Command, Completion, Device, Identity, Outcome, PageWrite, Reply, Tag, Until,
    };
    use lode_firmware::Drive;

    use super::super::{ClientOptions, RemoteDevice};
    use crate::frame::{Assembler, Frame, FrameKind, ReadOutcome, put_frame};
    use crate::message::{Hello, Recovered, Refusal, Refused, Welcome};

    /// The server's side of a connection, controlled by the test.
    struct Peer {
        socket: TcpStream,
        frames: Assembler,
        out: Vec<u8>,
    }

    impl Peer {
        fn accept(listener: &TcpListener) -> (Self, Hello) {
            let socket = listener.accept().unwrap().0;
            let mut p = Self { socket, frames: Assembler::new(1 << 20), out: Vec::new() };
            let hello = p.read();
            assert_eq!(hello.kind, FrameKind::Hello);
            let hello = Hello::take(&mut Reader::new(&hello.payload)).unwrap();
            (p, hello)
        }

        fn read(&mut self) -> Frame {
            loop {
                match self.frames.next(&mut self.socket).unwrap() {
                    ReadOutcome::Frame(frame) => return frame,
                    ReadOutcome::Part { .. } => {}
                    ReadOutcome::End => panic!("the client went"),
                }
            }
        }

        /// Receives the next command and returns its tag.
        fn submitted(&mut self) -> u64 {
            let frame = self.read();
            assert_eq!(frame.kind, FrameKind::Submit);
            u64::from_le_bytes(frame.payload[8..16].try_into().unwrap())
        }

        fn welcome(&mut self, opening: u64, recovered: Option<Recovered>, identity: &Identity) {
            let (client, identity) = (SessionId::new(9), identity.clone());
            let welcome = Welcome { opening, client, channel: opening, recovered, identity };
            put_frame(&mut self.out, FrameKind::Welcome, 0, 0, |w| welcome.put(w));
            self.send();
        }

        fn answer(&mut self, number: u64, tag: u64, reply: Reply) {
            let (at, split) = (VirtualTime::ZERO, Split::default());
            let c = Completion { tag: Tag(tag), at, split, outcome: Outcome::Done(Ok(reply)) };
            put_frame(&mut self.out, FrameKind::Answer, number, number, |w| put_completion(w, &c));
        }

        fn send(&mut self) {
            self.socket.write_all(&std::mem::take(&mut self.out)).unwrap();
        }
    }

    /// Found by seed 1 of `drives_are_opened_anew_and_nothing_is_lost_or_done_twice` on a slow machine. The client sent
    /// a batch again, and its answer arrived before the client next read. The client returned this answer before the
    /// answers of batches that were found applied.
    #[test]
    fn batches_found_applied_are_answered_before_one_whose_answer_is_there_at_once() {
        let identity = Drive::in_memory(1 << 30).identity().clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let session = SessionId::new(4);
        let server = std::thread::spawn(move || {
            let (mut control, _) = Peer::accept(&listener);
            control.welcome(1, None, &identity);
            let (mut queue, hello) = Peer::accept(&listener);
            assert!(matches!(hello, Hello::Open { .. }));
            queue.welcome(1, None, &identity);
            let open = queue.submitted();
            queue.answer(1, open, Reply::Session { session, highest: 0 });
            queue.send();
            let batches = [queue.submitted(), queue.submitted()];
            drop(queue);

            let (mut queue, hello) = Peer::accept(&listener);
            assert!(matches!(hello, Hello::Attach { .. }));
            let no = Refused::Refusal(Refusal::NoChannel(2));
            put_frame(&mut queue.out, FrameKind::Refused, 0, 0, |w| no.put(w));
            queue.send();
            let (mut queue, hello) = Peer::accept(&listener);
            assert!(matches!(hello, Hello::Open { .. }));
            let recovered = Recovered { commit: CommitNo::new(1), view: ViewId::new(1) };
            queue.welcome(2, Some(recovered), &identity);
            let resume = queue.submitted();
            queue.answer(1, resume, Reply::Session { session, highest: 1 });
            // The drive is fast: its answer is there as soon as the batch is sent.
            queue.answer(
                2,
                batches[1],
                Reply::Committed { commit: CommitNo::new(2), view: None, entries: Vec::new() },
            );
            queue.send();
            let _closes_the_recovered_view = queue.submitted();
            assert_eq!(queue.submitted(), batches[1], "the first one was applied");
            (control, queue, batches)
        });
        let device = RemoteDevice::connect(&addr, ClientOptions::new(Arc::new(std::thread::sleep))).unwrap();
        let mut queue = device.open_queue(2).unwrap();
        for n in 0..2 {
            let data = PageBuf::from_values(&[n; 8]);
            let writes = vec![PageWrite { lpid: Lpid::from_raw(n).unwrap(), data, align: Align::Cell }];
            queue.submit(VirtualTime::ZERO, Command::Write(Batch { writes, ..Batch::default() })).unwrap();
        }
        let mut out = Vec::new();
        while out.len() < 2 {
            queue.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        }
        let (control, peer, batches) = server.join().unwrap();
        assert_eq!(out.iter().map(|c| c.tag.0).collect::<Vec<_>>(), batches);
        drop((control, peer));
    }
}
