//! Slurm's own tools on a cluster that exists on paper: its controller runs, its nodes are never started.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Eight nodes with eight H100s each.
const CONF: &str = "ClusterName=test\nSlurmctldHost=HOST(127.0.0.1)\nSlurmUser=USER\nSlurmctldPort=PORT\nAuthType=auth/munge\n\
    AuthInfo=socket=AT/socket\nStateSaveLocation=AT/state\nSlurmctldPidFile=AT/controller.pid\nSlurmctldLogFile=AT/controller.log\n\
    ProctrackType=proctrack/linuxproc\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu\nMpiDefault=none\n\
    SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=600\n\
    NodeName=node[1-8] NodeAddr=127.0.0.1 Port=[1-8] CPUs=16 RealMemory=100000 Gres=gpu:h100:8 State=CLOUD\n\
    PartitionName=gpu Nodes=node[1-8] Default=YES MaxTime=INFINITE State=UP\n";

/// The controller and the service that signs its messages, for as long as it is kept.
pub struct Slurm {
    folder: tempfile::TempDir,
}

fn done(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

impl Slurm {
    /// None where Slurm is not installed.
    pub fn start() -> Option<Slurm> {
        done(Command::new("slurmctld").arg("-V"))?;
        done(Command::new("munged").arg("--version"))?;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::create_dir(at.join("state")).unwrap();
        std::fs::create_dir(at.join("keys")).unwrap();
        std::fs::write(at.join("keys/key"), [7; 1024]).unwrap();
        done(Command::new("chmod").arg("-R").arg("go=").arg(at.join("keys")))?;
        done(Command::new("chmod").arg("711").arg(at))?;
        let mut munged = Command::new("munged");
        munged.arg("--force");
        for (flag, name) in [
            ("key-file", "keys/key"),
            ("socket", "socket"),
            ("pid-file", "keys/pid"),
            ("seed-file", "keys/seed"),
            ("log-file", "keys/log"),
        ] {
            munged.arg(format!("--{flag}={}", at.join(name).display()));
        }
        done(&mut munged)?;
        let slurm = Slurm { folder };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let (host, user) = (done(Command::new("hostname").arg("-s"))?, done(Command::new("id").arg("-un"))?);
        let at = slurm.folder.path();
        let conf =
            CONF.replace("HOST(", &format!("{host}(")).replace("=USER", &format!("={user}")).replace("PORT", &port);
        std::fs::write(at.join("slurm.conf"), conf.replace("AT/", &format!("{}/", at.display()))).unwrap();
        std::fs::write(at.join("gres.conf"), "NodeName=node[1-8] Name=gpu Type=h100 Count=8\n").unwrap();
        done(Command::new("slurmctld").arg("-f").arg(at.join("slurm.conf")))?;
        let begun = Instant::now();
        while !slurm.tool("scontrol", &["ping"]).stdout.windows(5).any(|word| word == b"is UP") {
            assert!(begun.elapsed() < Duration::from_secs(60), "the controller does not respond");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(slurm)
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Output {
        let conf = self.folder.path().join("slurm.conf");
        Command::new(program).args(arguments).env("SLURM_CONF", conf).output().unwrap()
    }

    /// What `sbatch` would do with a script, and whether it takes it.
    pub fn takes(&self, script: &Path) -> (bool, String) {
        let output = self.tool("sbatch", &["--test-only", &script.to_string_lossy()]);
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for pid in ["controller.pid", "keys/pid"] {
            if let Ok(pid) = std::fs::read_to_string(self.folder.path().join(pid)) {
                let _ = Command::new("kill").arg(pid.trim()).status();
            }
        }
    }
}
