//! Carries out commands that complete at once. Scans are the queue's.

use lode_command::{Command, CommandError, Reply};

use crate::core::Core;

/// Carries out a command.
pub(crate) fn run(core: &Core, c: Command) -> Result<Reply, CommandError> {
    match c {
        Command::Write(batch) => core.writer().write(batch),
        Command::Read { view, pages } => core.reader().read_pages(view, &pages),
        Command::Scan(_) | Command::ReadIndexed(_) => unreachable!("a queue runs tasks itself"),
        Command::OpenView => {
            let (view, commit) = core.pages().versions().open();
            Ok(Reply::View { view, commit })
        }
        Command::CloseView(view) => match core.pages().versions().close(view) {
            true => Ok(Reply::Done),
            false => Err(CommandError::ViewClosed(view)),
        },
        Command::AllocateExtents { owner, count } => core.writer().allocate(owner, count),
        Command::ListExtents => core.reader().list_extents(),
        Command::BuildIndex(owner) => core.writer().build_index(owner),
        Command::ReadIndex { view, pages } => core.reader().read_index(view, &pages),
        Command::RegisterProgram { owner, number, program } => {
            core.pages().registered().set_program(owner, number, program).map(|()| Reply::Done)
        }
        Command::RegisterKeys { owner, number, rule } => {
            // No commit is installed meanwhile, so that each one either was, or tells of what it changes.
            let _state = core.state();
            let newest = core.pages().versions().newest().raw();
            core.pages().registered().set_keys(owner, number, rule, newest).map(|()| Reply::Done)
        }
        Command::Checkpoint => {
            core.upkeep().checkpoint(false)?;
            Ok(Reply::Done)
        }
        Command::Flush => {
            core.committer().flush()?;
            Ok(Reply::Done)
        }
        Command::OpenSession => core.writer().open_session(),
        Command::CloseSession(session) => core.writer().close_session(session),
        Command::ResumeSession(session) => {
            let highest = core.state().sessions().highest(session)?;
            Ok(Reply::Session { session, highest })
        }
    }
}
