//! COPY FROM STDIN and TO STDOUT: the rows travel between the session and who runs the statement.
//!
//! ```text
//!   COPY t FROM STDIN ─► StatementResult::CopyIn  ◄─ write(bytes) ... finish ─► rows
//!   COPY t TO STDOUT  ─► StatementResult::CopyOut ─► stream of bytes
//! ```

use std::fmt;
use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::SqlError;
use crate::error::state;

/// Pieces that wait between the sender and the reader.
const WAITING_PIECES: usize = 4;

enum Piece {
    Bytes(Bytes),
    End,
    Failed(String),
}

/// Takes the rows of a COPY FROM STDIN, as bytes in its format. If it is dropped before [`CopyIn::finish`], nothing is
/// loaded, and an open transaction has failed. Until then the session runs no other statement of its transaction.
pub struct CopyIn {
    sender: mpsc::Sender<Piece>,
    load: JoinHandle<Result<u64, SqlError>>,
    columns: usize,
}

impl CopyIn {
    pub(crate) fn new(
        columns: usize,
        load: impl FnOnce(Pieces) -> JoinHandle<Result<u64, SqlError>>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        let pieces = Pieces { receiver, now: Bytes::new(), ended: false };
        Self { sender, load: load(pieces), columns }
    }

    /// How many values a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Hands some bytes over. They need not end with a row. After a row that cannot be loaded, further bytes are
    /// ignored: [`CopyIn::finish`] tells the error.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) {
        // The reader is gone if the load has failed.
        let _ = self.sender.send(Piece::Bytes(bytes.into())).await;
    }

    /// Ends the rows. Returns how many were loaded.
    ///
    /// # Errors
    /// A malformed row or value, with its line and column; and whatever an INSERT of the rows can fail with.
    pub async fn finish(self) -> Result<u64, SqlError> {
        self.end(Piece::End).await
    }

    /// Gives the rows up, for this reason.
    ///
    /// # Errors
    /// Always: SQLSTATE 57014, or why the load failed before.
    pub async fn abort(self, reason: &str) -> Result<u64, SqlError> {
        self.end(Piece::Failed(reason.to_owned())).await
    }

    async fn end(self, last: Piece) -> Result<u64, SqlError> {
        // The reader is gone if the load has failed.
        let _ = self.sender.send(last).await;
        match self.load.await {
            Ok(result) => result,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(SqlError::shutting_down()),
        }
    }
}

impl fmt::Debug for CopyIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyIn({} columns)", self.columns)
    }
}

/// The bytes as they arrive, for a thread that may block.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    now: Bytes,
    ended: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let n = available.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.now.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.now = bytes,
                Some(Piece::End) => self.ended = true,
                Some(Piece::Failed(reason)) => return Err(aborted(&reason)),
                None => return Err(aborted("the connection to the rows was lost")),
            }
        }
        Ok(&self.now)
    }

    fn consume(&mut self, n: usize) {
        self.now.advance(n);
    }
}

fn aborted(reason: &str) -> io::Error {
    let e = SqlError::failed(state::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"));
    io::Error::other(e)
}

/// The rows of a COPY TO STDOUT, as bytes in its format.
pub struct CopyOut {
    columns: usize,
    pieces: BoxStream<'static, Result<Bytes, SqlError>>,
}

impl CopyOut {
    pub(crate) fn new(columns: usize, pieces: BoxStream<'static, Result<Bytes, SqlError>>) -> Self {
        Self { columns, pieces }
    }

    /// How many values a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The next whole rows, each with its line break; `None` at the end.
    ///
    /// # Errors
    /// Those of the query.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SqlError> {
        self.pieces.next().await.transpose()
    }
}

impl fmt::Debug for CopyOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyOut({} columns)", self.columns)
    }
}
