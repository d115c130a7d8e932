//! Two real agents beside the nodes of the bench, as an operator would start them.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// The agent's executable.
const SCRY: &str = env!("CARGO_BIN_EXE_scry");
/// How long agents and nodes may take to find each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// What agents are configured with; all else has its default.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub mode: &'static str,
    pub isolate: &'static str,
}

/// Two agents, ended with this.
pub(crate) struct Agents {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Agents {
    /// Starts agents for nodes 1 and 2, with certificates of their own.
    pub(crate) fn start(setting: Setting) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("scry-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let made = Command::new(SCRY)
            .args(["cert", "init", "--nodes", "1..2"])
            .arg(folder.join("certs"))
            .stdout(Stdio::null())
            .status()?;
        ensure!(made.success(), "no certificates were made");
        let ports = [free_port()?, free_port()?];
        let mut agents = Self {
            folder,
            children: Vec::new(),
        };
        for (node, port) in (1..).zip(ports) {
            let configuration = agents.configure(node, port, ports, setting)?;
            let child = Command::new(SCRY)
                .args(["agent", "--config"])
                .arg(configuration)
                .stderr(Stdio::null())
                .spawn()?;
            agents.children.push(child);
        }
        Ok(agents)
    }

    /// A snapshot each second, ten times as often as the papers; searches are short, since they are not what is measured.
    fn configure(
        &self,
        node: u32,
        port: u16,
        ports: [u16; 2],
        Setting { mode, isolate }: Setting,
    ) -> anyhow::Result<PathBuf> {
        let folder = self.folder.display();
        let socket = self.socket(node);
        let text = format!(
            r#"
            node.id = {node}
            host.socket = "{socket}"
            peers.listen = "127.0.0.1:{port}"
            peers.certificate = "certs/n{node}.pem"
            peers.key = "certs/n{node}.key"
            peers.authority = "certs/authority.pem"
            peers.known = [
                {{ id = 1, address = "127.0.0.1:{}" }},
                {{ id = 2, address = "127.0.0.1:{}" }},
            ]
            neighborhood.source = "list"
            neighborhood.members = [1, 2]
            checkpoint.period_ms = 1000
            checker.states = 1000
            steering.mode = "{mode}"
            safety.isolate = "{isolate}"
            steering.kill_file = ""
            log.directory = "log{node}"
            admin.listen = "{folder}/admin{node}.sock"
            "#,
            ports[0],
            ports[1],
            socket = socket.display(),
        );
        let path = self.folder.join(format!("scry{node}.toml"));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Returns where the agent of a node waits for it.
    pub(crate) fn socket(&self, node: u32) -> PathBuf {
        self.folder.join(format!("host{node}.sock"))
    }

    /// Waits until both agents have seen both nodes.
    pub(crate) async fn wait_for_snapshots(&mut self) -> anyhow::Result<()> {
        let limit = Instant::now() + PATIENCE;
        for node in 1..=2 {
            let log = self.folder.join(format!("log{node}"));
            while !shows_both(&log) {
                for child in &mut self.children {
                    ensure!(child.try_wait()?.is_none(), "an agent has ended");
                }
                if Instant::now() > limit {
                    bail!("agent {node} gathers no snapshot of both");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        // Nobody misses a folder among temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn shows_both(log: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(log) else {
        return false;
    };
    let texts = files.flatten().map(|file| {
        // A file that is no text, or gone, tells nothing.
        std::fs::read_to_string(file.path()).unwrap_or_default()
    });
    texts.into_iter().any(|text| {
        text.lines().any(|line| {
            line.contains(r#""kind":"snapshot""#) && line.contains(r#""members":["n1","n2"]"#)
        })
    })
}

fn free_port() -> anyhow::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("no port is free")?;
    Ok(socket.local_addr()?.port())
}
