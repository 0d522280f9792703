//! `lode sql`: a shell, or one-shot.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lode_sql::Offload;

use crate::drive_file::{Modelled, Opened, Resources, open_or_create_modelled};
use crate::error::{CliError, CliResult};
use crate::output::Format;
use crate::script::{ROLLED_BACK, Runner, standard_input};
use crate::shell;

/// Run SQL on a database: a shell, or one-shot
#[derive(clap::Args)]
#[command(
    long_about = "Run SQL on a database: a shell, or one-shot.\n\n\
        FILE is the image of a drive; it is made if there is none. Without -c and -f, statements come from standard \
        input. On a terminal that is a shell with history, line editing and completion. Otherwise each statement runs \
        as soon as its ';' is read, and is durable once its result is written. The first failing statement ends a \
        script. The statements before it stay done, except those of an open transaction, which is rolled back at the \
        end of a script.",
    after_long_help = "EXAMPLES\n  \
        A shell:\n    lode sql my.lode\n\n  \
        One statement, for people and for programs:\n    lode sql my.lode -c 'SELECT * FROM trips LIMIT 10'\n    \
        lode sql my.lode --format csv -c 'SELECT * FROM trips' > trips.csv\n\n  \
        A script, then a question:\n    lode sql my.lode -f schema.sql -c 'SHOW TABLES'\n\n  \
        Without the drive's help, to compare:\n    lode sql my.lode --offload off -c 'EXPLAIN ANALYZE SELECT ...'\n\n  \
        In the time of a modelled device:\n    lode drive format isp.lode --profile isp-adms11\n    \
        lode load tpch --scale 0.1 --drive isp.lode\n    \
        lode sql isp.lode --profile isp-adms11 -c 'EXPLAIN ANALYZE SELECT count(*) FROM lineitem'"
)]
pub(crate) struct Args {
    /// The image of the drive; made if there is none
    file: PathBuf,

    /// Statements to run; may be given more than once
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,

    /// A file of statements to run, before those of -c; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    script: Option<PathBuf>,

    /// How results are written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// How much the drive does: off, index, matches, hints, pages, rows, aggregate or auto
    #[arg(long, value_name = "LEVEL", default_value_t = Offload::Auto)]
    offload: Offload,

    #[command(flatten)]
    modelled: Modelled,

    #[command(flatten)]
    resources: Resources,
}

pub(crate) fn run(mut args: Args) -> CliResult {
    // Errors of the arguments are reported before an image is made.
    let script = match &args.script {
        Some(path) if path.as_os_str() != "-" => Some(File::open(path).map_err(|e| CliError::file(path, e))?),
        _ => None,
    };
    let profile = args.modelled.profile()?;
    args.resources = args.modelled.bound(args.resources);
    let mut opened = open_or_create_modelled(&args.file, args.resources, args.offload, profile)?;
    let one_shot = args.script.is_some() || !args.commands.is_empty();
    if !one_shot && std::io::stdin().is_terminal() {
        shell::run(&args.file, &mut opened, args.resources, args.format)?;
        return opened.close(&args.file);
    }
    let mut any_done = false;
    let result = run_texts(&args, script, one_shot, &opened, &mut || any_done = true);
    if opened.session.roll_back() && result.is_ok() {
        // This goes to standard error, so that a reader of the results does not take it for one.
        eprintln!("lode: {ROLLED_BACK}");
    }
    // The image holds the acknowledged statements, even if a later one failed.
    if any_done {
        opened.keep();
    }
    opened.end(&args.file, result)
}

fn run_texts(
    args: &Args,
    script: Option<File>,
    one_shot: bool,
    opened: &Opened,
    done: &mut dyn FnMut(),
) -> CliResult {
    let session = Arc::clone(&opened.session);
    args.resources.block_on(async {
        let mut runner = Runner { session: &session, format: args.format, timing: false, done };
        match (script, &args.script) {
            (Some(file), Some(path)) => runner.run_all(path, BufReader::new(file)).await?,
            (None, Some(_)) => runner.run_all(Path::new("standard input"), std::io::stdin().lock()).await?,
            _ if !one_shot => runner.run_all(Path::new("standard input"), std::io::stdin().lock()).await?,
            _ => {}
        }
        for text in &args.commands {
            runner.run(text, &mut standard_input).await?;
        }
        Ok(())
    })
}
