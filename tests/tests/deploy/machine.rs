//! The Debian package, built, installed and removed again, and its unit started, in a machine of its own: systemd as the
//! first process of a namespace (`systemd-nspawn`) over this machine's `/usr`, with a service beside the agent.
//!
//! That needs root, Debian, and `systemd-nspawn` (package `systemd-container`). Where something is missing the test says
//! what was left out. The binaries are those of the development profile, so that nothing more has to be built.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use scry_tests::{files, root};

use crate::{Scratch, program, text};

/// How long the machine may take. Nothing is measured by it: it only ends what hangs.
const MACHINE_SECONDS_MAX: &str = "300";

/// Returns the folder with the binaries of packages, given as pairs of both names. Those that are there are taken if no
/// source is newer, as in a run of all tests: to ask cargo for them alone would build much anew, with other features.
pub(crate) fn build(wanted: &[(&str, &str)]) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    // target/debug/deps/deploy-…
    let folder = test
        .ancestors()
        .nth(2)
        .expect("tests are in a folder of deps");
    if wanted.iter().all(|(_, name)| is_fresh(&folder.join(name))) {
        return folder.to_owned();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--offline", "--bins"]);
    for (package, _) in wanted {
        cargo.args(["--package", package]);
    }
    let built = cargo.current_dir(root()).output();
    let built = built.expect("cargo can be started");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    folder.to_owned()
}

/// Tells whether a binary is newer than everything it could be made of.
fn is_fresh(binary: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    let Ok(made) = modified(binary) else {
        return false;
    };
    let folders = ["protocol", "steering", "agent", "examples"];
    let mut sources = folders
        .into_iter()
        .flat_map(|folder| files(&root().join(folder)));
    sources.all(|source| modified(&source).is_ok_and(|changed| changed <= made))
}

/// Builds the package into a folder, and returns its path.
fn package(binary: &Path, folder: &Path) -> PathBuf {
    let script = root().join("deploy/debian/build");
    let output = Command::new(script).arg(binary).arg(folder).output();
    let output = output.expect("the script can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let packages = entries.map(|entry| entry.expect("it can be read").path());
    let mut packages = packages.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    packages.next().expect("a package was written")
}

fn dpkg_deb(arguments: &[&str], package: &Path) -> String {
    let output = Command::new("dpkg-deb")
        .args(arguments)
        .arg(package)
        .output();
    let output = output.expect("dpkg-deb can be started");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("dpkg-deb writes text")
}

#[test]
fn the_package_holds_what_operators_need() {
    if program("dpkg-deb").is_none() {
        return;
    }
    let folder = Scratch::new("package");
    let binaries = build(&[("scry-agent", "scry")]);
    let package = package(&binaries.join("scry"), folder.path());
    let workspace: toml::Table = text("Cargo.toml").parse().expect("the workspace is TOML");
    let version = workspace["workspace"]["package"]["version"].as_str();
    let field = |name: &str| {
        dpkg_deb(&["--field"], &package).lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(": ")?;
            Some(value.to_owned())
        })
    };
    assert_eq!(field("Package").as_deref(), Some("scry"));
    assert_eq!(field("Version").as_deref(), version);
    assert!(field("Depends").is_some_and(|needs| needs.starts_with("libc6 (>= 2.")));
    let list = dpkg_deb(&["--contents"], &package);
    let entry = |path: &str| {
        let found = list
            .lines()
            .find(|line| line.ends_with(&format!(" .{path}")));
        found.unwrap_or_else(|| panic!("{path} is missing in\n{list}"))
    };
    assert!(entry("/usr/bin/scry").starts_with("-rwxr-xr-x root/root"));
    for path in [
        "/etc/scry/scry.toml",
        "/usr/lib/systemd/system/scry-agent.service",
        "/usr/lib/sysusers.d/scry.conf",
        "/usr/lib/tmpfiles.d/scry.conf",
        "/usr/share/doc/scry/copyright",
        "/usr/share/doc/scry/operating.md",
        "/usr/share/doc/scry/examples/alerts.yaml",
        "/usr/share/man/man1/scry.1.gz",
        "/usr/share/bash-completion/completions/scry",
    ] {
        assert!(entry(path).starts_with("-rw-r--r-- root/root"), "{path}");
    }
    let control = folder.path().join("control");
    let control = control.to_str().expect("a path of ours is text");
    let unpacked = Command::new("dpkg-deb")
        .arg("--control")
        .arg(&package)
        .arg(control)
        .status();
    assert!(unpacked.expect("dpkg-deb can be started").success());
    let conffiles = fs::read_to_string(format!("{control}/conffiles")).expect("it is there");
    assert_eq!(conffiles, "/etc/scry/scry.toml\n");
    // Nothing is started by installing it: an agent needs a configuration first.
    let script = fs::read_to_string(format!("{control}/postinst")).expect("it is there");
    let mut commands = script.lines().filter(|line| !line.starts_with('#'));
    assert!(commands.all(|line| !line.contains("enable")), "{script}");
}

/// Says why no machine can be booted here, if so.
fn obstacle() -> Option<&'static str> {
    let own = fs::metadata("/proc/self").expect("there is /proc");
    if own.uid() != 0 {
        return Some("not root");
    }
    if !Path::new("/etc/debian_version").exists() || program("dpkg-deb").is_none() {
        return Some("not Debian");
    }
    if program("systemd-nspawn").is_none() {
        return Some("no systemd-nspawn (package systemd-container)");
    }
    if !Path::new("/usr/lib/systemd/systemd").exists() {
        return Some("no systemd");
    }
    None
}

/// Makes a root over this machine's `/usr`: an empty `/etc`, and packages as if only the C library were there.
fn make_root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for name in [
        "usr",
        "etc/systemd/system",
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "tmp",
        "trial",
    ] {
        fs::create_dir_all(root.join(name)).expect("folders can be made");
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name)).expect("links can be made");
    }
    let write = |name: &str, content: &str| {
        fs::write(root.join(name), content).expect("files can be written");
    };
    // With a machine id this is no first boot, about which systemd would ask questions.
    write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    write("etc/os-release", "ID=trial\n");
    write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    write("etc/group", "root:x:0:\n");
    write(
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    );
    write("var/lib/dpkg/available", "");
    let status = fs::read_to_string("/var/lib/dpkg/status").expect("Debian has one");
    let needed = |part: &&str| {
        ["libc6", "libgcc-s1"]
            .iter()
            .any(|name| part.starts_with(&format!("Package: {name}\n")))
    };
    // Without what those need in turn: the package is what is tried.
    let kept = status.split("\n\n").filter(needed).map(|part| {
        let lines = part
            .lines()
            .filter(|line| !line.starts_with("Depends:") && !line.starts_with("Pre-Depends:"));
        lines.collect::<Vec<_>>().join("\n") + "\n\n"
    });
    write("var/lib/dpkg/status", &kept.collect::<String>());
    root
}

/// What the machine is to do once it runs.
fn prepare_trial(root: &Path, package: &Path, service: &Path) {
    let trial = root.join("trial");
    let copy = |from: &Path, name: &str| {
        fs::copy(from, trial.join(name)).expect("files can be copied");
    };
    copy(package, "scry.deb");
    copy(service, "tree");
    let write = |name: &str, content: &str| {
        let path = root.join(name);
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).expect("folders can be made");
        fs::write(path, content).expect("files can be written");
    };
    write("trial/run", include_str!("machine/trial.sh"));
    write(
        "trial/scry.toml",
        "[node]\nid = 1\n[peers]\nlisten = \"\"\n[checkpoint]\nperiod_ms = 500\n[checker]\ntime_ms = 300\n",
    );
    write("etc/sysusers.d/tree.conf", "u tree - - - -\n");
    write(
        "etc/systemd/system/tree.service",
        "[Service]\nUser=tree\nExecStart=/trial/tree node --id=1 --agent=/run/scry/host.sock --kill-file=/run/scry/off\n",
    );
    write(
        "etc/systemd/system/scry-agent.service.d/user.conf",
        "[Service]\nUser=tree\n",
    );
    write(
        "etc/systemd/system/trial.service",
        "[Unit]\nRequires=basic.target\nAfter=basic.target\nFailureAction=exit-force\nSuccessAction=exit-force\n\
         [Service]\nType=oneshot\nExecStart=/bin/sh /trial/run\nStandardOutput=file:/trial/said\nStandardError=file:/trial/complained\n",
    );
}

#[test]
fn the_package_is_installed_and_its_unit_started_by_systemd() {
    if let Some(why) = obstacle() {
        eprintln!("{why}: the package was not installed and the unit not started");
        return;
    }
    let folder = Scratch::new("machine");
    let binaries = build(&[("scry-agent", "scry"), ("randtree", "randtree")]);
    let package = package(&binaries.join("scry"), folder.path());
    let root = make_root(folder.path());
    prepare_trial(&root, &package, &binaries.join("randtree"));
    let upper = folder.path().join("upper");
    fs::create_dir_all(&upper).expect("folders can be made");
    let output = Command::new("timeout")
        .args(["--kill-after=10", MACHINE_SECONDS_MAX, "systemd-nspawn"])
        .args([
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--private-network",
        ])
        .arg(format!("--machine=scry-trial-{}", std::process::id()))
        .arg("--directory")
        .arg(&root)
        .arg(format!("--overlay=/usr:{}:/usr", upper.display()))
        .args(["--boot", "systemd.unit=trial.service"])
        .output()
        .expect("systemd-nspawn can be started");
    let read = |name: &str| fs::read_to_string(root.join("trial").join(name)).unwrap_or_default();
    let (said, complained) = (read("said"), read("complained"));
    let console = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if said.is_empty() && !console.contains("Welcome to") {
        // Kernels and containers differ in what they allow; the files were checked above all the same.
        eprintln!("no machine can be booted here: {errors}\nthe unit was not started");
        return;
    }
    let all = format!("{said}\n--- complained\n{complained}\n--- console\n{console}{errors}");
    let line = |start: &str| {
        let mut lines = said.lines();
        let found = lines.find_map(|line| line.strip_prefix(start)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("nothing was said of {start:?}:\n{all}"))
    };
    assert!(
        line("installed").starts_with("install ok installed"),
        "{all}"
    );
    assert_eq!(line("user"), "scry:/usr/sbin/nologin");
    assert_eq!(
        line("folders").trim(),
        "/run/scry scry 755 /var/log/scry scry 750"
    );
    assert_eq!(line("enabled"), "disabled");
    // A bad configuration ends the start. A check in a command before it left the unit `activating` for ever.
    assert_eq!(line("bad"), "failed 78 restarts 0");
    assert_eq!(line("started"), "active running");
    assert_eq!(line("ready"), "alive");
    let status: serde_json::Value = serde_json::from_str(line("status")).expect("status is JSON");
    assert_eq!(
        status["steering"]["host"]["service"], "RandTree",
        "{status}"
    );
    assert_eq!(status["steering"]["checker_ready"], true, "{status}");
    assert_eq!(status["waits_for"], serde_json::json!([]));
    line("restarted");
    assert_eq!(line("restarted"), "tree active restarts 0");
    assert_eq!(line("off"), "ready");
    assert_eq!(line("stopped"), "inactive success /run/scry/off");
    assert_eq!(line("purged"), "0 left");
    assert_eq!(line("user stays"), "scry");
    assert_eq!(
        line("tree"),
        "active",
        "the service ran on through all of it"
    );
    assert!(said.ends_with("end\n"), "{all}");
}
