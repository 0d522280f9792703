//! The `lode` binary: one file per command in `commands/`, and the code that the commands share.
//!
//! ```text
//!   main ─► clap ─► commands::* ─► drive_file: image ─► Drive ─► Database ─► Session
//!                        └────────► output, table: what people and programs read
//! ```
//!
//! Every failure ends with one line on standard error that starts with `lode: `. The status is 1, or 2 for a bad
//! command line, or 128 plus the signal's number.

mod allocator;
mod commands;
mod complete;
mod drive_file;
mod error;
mod interrupt;
mod log;
mod output;
mod script;
mod shell;
mod split;
mod table;

use clap::{CommandFactory, Parser, Subcommand};

use error::{CliError, CliResult};

/// A SQL database and the programmable drive under it, designed as one.
#[derive(Parser)]
#[command(
    name = "lode",
    version,
    long_about = "Lode is a SQL database and the programmable drive under it, designed as one.\n\n\
        A database is one file: the image of a drive. The drive stores pages in atomic batches, indexes every page as \
        it is written, and filters where the data lies; the database plans for what the drive can do.",
    after_long_help = "EXAMPLES\n  \
        See what the drive saves, in a minute:\n    lode demo\n\n  \
        Open a shell on a database, which is made if there is none:\n    lode sql my.lode\n\n  \
        Load a CSV file and ask it something:\n    lode load csv --drive my.lode --table trips trips.csv\n    \
        lode sql my.lode -c 'SELECT count(*) FROM trips'\n\n\
        EXIT STATUS\n  \
        0 on success, 1 when something failed, 2 for a bad command line, 130 after Ctrl-C. A failure is one line on \
        standard error."
)]
struct Cli {
    /// Print what the drive, the engine and SQL do to standard error, with the time of each step
    ///
    /// LEVEL is `error`, `warn`, `info` (openings, recoveries, statements), `debug` (groups, checkpoints, GC) or `trace` (batches).
    /// FILTER sets a level per part: `lode_firmware=debug,lode_sql=info`. This option takes precedence over the variable LODE_LOG.
    #[arg(long, value_name = "LEVEL|FILTER", env = "LODE_LOG", hide_env_values = true)]
    log: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Sql(commands::sql::Args),
    Load(commands::load::Args),
    Drive(commands::drive::Args),
    Bench(commands::bench::Args),
    Paper(commands::paper::Args),
    Sim(commands::sim::Args),
}

fn main() {
    std::process::exit(match parse().and_then(run) {
        Ok(()) => 0,
        Err(e) => {
            if let Some(message) = e.message() {
                // If standard error is closed, only the status tells.
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    format!("lode: {message}\n").as_bytes(),
                );
            }
            e.status()
        }
    });
}

fn run(cli: Cli) -> CliResult {
    if let Some(filter) = &cli.log {
        log::show(filter)?;
    }
    interrupt::install()?;
    match cli.command {
        Command::Demo(args) => commands::demo::run(args),
        Command::Sql(args) => commands::sql::run(args),
        Command::Load(args) => commands::load::run(args),
        Command::Drive(args) => commands::drive::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Paper(args) => commands::paper::run(args),
        Command::Sim(args) => commands::sim::run(args),
    }
}

/// Parses the command line. Help and version go to standard output. A mistake becomes one line.
fn parse() -> CliResult<Cli> {
    use clap::error::ErrorKind;
    let e = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(e) => e,
    };
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            e.print()?;
            Err(CliError::OutputClosed)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Err(CliError::Usage(missing_command()))
        }
        _ => {
            let text = e.render().to_string();
            let text = text.split("\n\n").next().unwrap_or(&text);
            let text = text.strip_prefix("error: ").unwrap_or(text);
            Err(CliError::Usage(format!("{text} (see --help)")))
        }
    }
}

/// The message for a missing command or subcommand.
fn missing_command() -> String {
    let mut command = Cli::command();
    let mut words = vec!["lode".to_string()];
    for word in std::env::args().skip(1) {
        let Some(sub) = command.find_subcommand(&word).cloned() else { break };
        words.push(word);
        command = sub;
    }
    let names: Vec<_> = command.get_subcommands().map(|c| c.get_name()).filter(|n| *n != "help").collect();
    if names.is_empty() {
        return format!("'{0}' needs more: see '{0} --help'", words.join(" "));
    }
    format!("'{}' needs a command: {} (see --help)", words.join(" "), names.join(", "))
}
