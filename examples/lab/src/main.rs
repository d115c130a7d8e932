//! The lab: runs real clusters of the example services with agents beside them, breaks them on purpose, and counts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`demo`], [`story`], [`randtree`], [`paxos`], [`indices`], [`gauntlet`] | the experiments |
//! | [`stage`], [`cluster`], [`node`], [`agent`], [`process`] | a run, its cluster, and the processes it is made of |
//! | [`referee`], [`observer`], [`usage`] | who watches: the true global state, what is worth keeping, what it costs |
//! | [`churn`], [`draw`], [`statistics`] | who leaves and comes back; chance; numbers about samples |
//! | [`view`], [`result`], [`html`] | what people and machines get to see |
//! | [`part`] | the other parts this one executable plays: node, agent, checker, speculator |

mod agent;
mod churn;
mod cluster;
mod demo;
mod draw;
mod event_log;
mod gauntlet;
mod html;
mod indices;
mod node;
mod observer;
mod part;
mod paxos;
mod process;
mod randtree;
mod referee;
mod result;
mod stage;
mod staged;
mod statistics;
mod story;
mod usage;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// Runs real clusters of the example services with agents beside them, breaks them on purpose, and counts.
#[derive(Debug, Parser)]
#[command(after_help = part::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A minute's story: a small RandTree that breaks, and the same one steered (the default).
    Demo(demo::Demo),
    /// RandTree under churn, three times: off, with the immediate check alone, with everything (CrystalBall §5.4.1).
    Randtree(randtree::Experiment),
    /// Paxos with a bug, many times over: how often steering and the immediate check prevent it (CrystalBall §5.4.2).
    Paxos(paxos::Experiment),
    /// 1Paxos over Paxos with its bug, its nodes proposing and suspecting each other while datagrams are lost (LMC §5.6).
    #[command(name = "one-paxos")]
    OnePaxos(indices::Experiment),
    /// Correct services under load and faults, left alone and steered: are they any the worse for it?
    Gauntlet(gauntlet::Gauntlet),
    /// One of CrystalBall's stories, once: what happens, what is predicted, and what is done about it.
    Story(story::Telling),
}

/// What every experiment can be asked.
#[derive(Clone, Debug, clap::Args)]
struct Output {
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
    /// Write the result as a page of HTML as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where to write configuration and logs; a new folder for temporary files by default.
    #[arg(long, value_name = "FOLDER")]
    directory: Option<PathBuf>,
}

impl Output {
    /// Returns where everything goes.
    fn directory(&self) -> PathBuf {
        let temporary = || std::env::temp_dir().join(format!("scry-lab-{}", std::process::id()));
        self.directory.clone().unwrap_or_else(temporary)
    }

    /// Writes a result where it was asked for.
    fn write(&self, json: &impl serde::Serialize, text: &str, page: &str) -> anyhow::Result<()> {
        if let Some(file) = &self.html {
            std::fs::write(file, page)?;
        }
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(json)?),
            false => println!("{text}"),
        }
        if let (Some(file), false) = (&self.html, self.json) {
            println!("page   {}", file.display());
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    if let Some(code) = part::play() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to be done if the message cannot be written.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                scry::cli::EXIT_USAGE
            } else {
                0
            });
        }
    };
    // Children are bound to the thread that started them, so that one must be this one, which lasts.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an experiment; whoever interrupts it ends all its processes, since they go when it is dropped.
async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let experiment = async {
        match arguments
            .command
            .unwrap_or(Command::Demo(demo::Demo::default()))
        {
            Command::Demo(demo) => demo.run().await,
            Command::Randtree(experiment) => experiment.run().await,
            Command::Paxos(experiment) => experiment.run().await,
            Command::OnePaxos(experiment) => experiment.run().await,
            Command::Gauntlet(gauntlet) => gauntlet.run().await,
            Command::Story(telling) => telling.run().await,
        }
    };
    tokio::select! {
        ended = experiment => ended,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminated.recv() => anyhow::bail!("terminated"),
        _ = hung_up.recv() => anyhow::bail!("the terminal is gone"),
    }
}
