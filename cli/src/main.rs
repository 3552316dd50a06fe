//! `wbcheck`: the command line. Nothing else in the project prints or exits.

mod args;
mod check;
mod corpus;
mod exit;
mod explain;
mod finding;
mod list;
mod mutants;
mod plot;
mod pool;
mod problem;
mod progress;
mod replay;
mod report;
mod run;
mod series;
mod shrink;
mod simulate;
mod sweep;
mod vectors;

use args::{Cli, Command};
use clap::Parser;
use exit::Exit;
use run::Early;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Where the first panic happened, and what it said.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let mut first = PANIC.lock().unwrap_or_else(|e| e.into_inner());
        if first.is_none() {
            let text = info.payload_as_str().unwrap_or("no message");
            *first = Some(info.location().map_or(text.to_string(), |l| format!("{text} (at {}:{})", l.file(), l.line())));
        }
    }));
    let exit = match catch_unwind(AssertUnwindSafe(|| dispatch(Cli::try_parse()))) {
        Ok(Ok(exit)) => exit,
        Ok(Err(Early::Problem(p))) => {
            p.print();
            Exit::Usage
        }
        // Whoever read the output has seen enough.
        Ok(Err(Early::Output(e))) if e.kind() == io::ErrorKind::BrokenPipe => Exit::AsDeclared,
        Ok(Err(Early::Output(e))) => {
            eprintln!("error: cannot write the results: {e}");
            Exit::Usage
        }
        Ok(Err(Early::Panic)) | Err(_) => bug(),
    };
    exit.into()
}

/// A bug in wbcheck: says what is known about it in two lines.
fn bug() -> Exit {
    let text = PANIC.lock().unwrap_or_else(|e| e.into_inner()).take();
    eprintln!("error: wbcheck has a bug: {}", text.as_deref().unwrap_or("panic without a message"));
    eprintln!("  help: this is not a verdict; please report it with the command line and, if you can, the case");
    Exit::Internal
}

fn dispatch(cli: Result<Cli, clap::Error>) -> Result<Exit, Early> {
    let cli = match cli {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are asked for; everything else is wrong usage.
            let exit = if e.use_stderr() { Exit::Usage } else { Exit::AsDeclared };
            return match e.print() {
                Ok(()) => Ok(exit),
                Err(e) => Err(Early::Output(e)),
            };
        }
    };
    // Without a handler Ctrl-C ends the process, which loses results but nothing else.
    let _ = ctrlc::set_handler(|| {
        if run::STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    let out = match &cli.command {
        Command::Check(a) => &a.out,
        Command::List(a) => &a.out,
        Command::Mutants(a) => &a.out,
        Command::Replay(a) => &a.out,
        Command::Shrink(a) => &a.out,
        Command::Explain(a) => &a.out,
        Command::Vectors(a) => &a.out,
        Command::Simulate(a) => &a.out,
        Command::Sweep(a) => &a.out,
    };
    let mut sink = report::sink(out, io::stdout());
    match &cli.command {
        Command::Check(a) => check::run(a, &mut *sink),
        Command::List(a) => list::run(a, &mut *sink),
        Command::Mutants(a) => mutants::run(a, &mut *sink),
        Command::Replay(a) => replay::run(a, &mut *sink),
        Command::Shrink(a) => shrink::run(a, &mut *sink),
        Command::Explain(a) => explain::run(a, &mut *sink),
        Command::Vectors(a) => vectors::run(a, &mut *sink),
        Command::Simulate(a) => simulate::run(a, &mut *sink),
        Command::Sweep(a) => sweep::run(a, &mut *sink),
    }
}
