//! Commands in file names. They are allowed in this whole process, which is why these tests have one of their own.
#![cfg(unix)]

use std::io::Write;

use koshi::error::Error;
use koshi::table::{
    BasicHolder, Input, Output, RandomAccessReader, SequentialReader, TableWriter, commands_allowed, set_allow_commands,
};

type Int = BasicHolder<i32>;

fn all(rspecifier: &str) -> Result<Vec<(String, i32)>, Error> {
    let mut reader = SequentialReader::<Int>::open(rspecifier)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        entries.push(entry);
    }
    reader.close()?;
    Ok(entries)
}

#[test]
fn commands_feed_tables() {
    set_allow_commands(true);
    assert!(commands_allowed());
    assert_eq!(all("ark:printf 'a 1\\nb 2\\n' |").unwrap(), [("a".to_string(), 1), ("b".to_string(), 2)]);
    // gzip by pipe, as in Kaldi's recipes, there and back.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.gz").display().to_string();
    let mut writer = TableWriter::<Int>::open(&format!("ark:| gzip -c > {file}")).unwrap();
    writer.write("x", &7).unwrap();
    writer.close().unwrap();
    assert_eq!(std::fs::read(&file).unwrap()[..2], [0x1f, 0x8b]);
    assert_eq!(all(&format!("ark:gunzip -c {file} |")).unwrap(), [("x".to_string(), 7)]);
    // A script's lines may be commands.
    let scp = folder.path().join("scp");
    let mut lines = std::fs::File::create(&scp).unwrap();
    writeln!(lines, "p echo 3 |\nq gunzip -c {file} | tail -c 7 |").unwrap();
    assert_eq!(all(&format!("scp:{}", scp.display())).unwrap(), [("p".to_string(), 3), ("q".to_string(), 7)]);
}

#[test]
fn failing_commands_are_errors() {
    set_allow_commands(true);
    // At the end of the data it shows that the command failed, though the entries before were whole.
    for rspecifier in ["ark:printf 'a 1\\n'; exit 3 |", "ark:printf 'a 1\\nb'; exit 3 |", "ark:false |"] {
        let error = all(rspecifier).unwrap_err();
        assert_eq!(matches!(error.root(), Error::Io { .. }), !rspecifier.contains("\\nb"), "{}", error.chain());
        assert!(all(&rspecifier.replace("ark:", "ark,p:")).unwrap().len() <= 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let scp = folder.path().join("scp");
    std::fs::write(&scp, "a echo 1; exit 3 |\nb echo 2 |\n").unwrap();
    assert!(all(&format!("scp:{}", scp.display())).unwrap_err().chain().contains("exit status: 3"));
    assert_eq!(all(&format!("scp,p:{}", scp.display())).unwrap(), [("b".to_string(), 2)]);
    let mut reader = RandomAccessReader::<Int>::open("ark:printf 'a 1\\n'; exit 3 |").unwrap();
    assert_eq!(reader.get("a").unwrap(), Some(&1));
    assert!(matches!(reader.get("b"), Err(Error::Io { .. })));
    // A command that does not exist fails when its output ends.
    let mut input = Input::open("/no/such/command 2>/dev/null |").unwrap();
    assert!(input.at_end().unwrap());
    assert!(matches!(input.close(), Err(Error::Io { .. })));
}

/// What was not wanted to the end may fail: the command dies of that.
#[test]
fn unread_output_is_no_failure() {
    set_allow_commands(true);
    let mut input = Input::open("yes; exit 3 |").unwrap();
    assert_eq!(input.read_line().unwrap().as_deref(), Some("y"));
    input.close().unwrap();
    drop(Input::open("yes |").unwrap());
    let mut reader = SequentialReader::<Int>::open("ark:yes '1 1' |").unwrap();
    assert_eq!(reader.next().unwrap(), Some(("1".to_string(), 1)));
    reader.close().unwrap();
}

/// The reading side is gone: a status, no signal, and nobody dies.
#[test]
fn case_b77_closed_pipe() {
    set_allow_commands(true);
    // As in a C program that has not heard of SIGPIPE: its default is to kill. Rust's own programs ignore it.
    // SAFETY: setting a signal's disposition to its default affects no memory; only tests run in this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut writer = TableWriter::<Int>::open("ark,f:| exec <&-; sleep 0.2").unwrap();
    let mut failed = None;
    // At the latest when the shell has ended, whenever that is.
    for _ in 0..6_000 {
        if let Err(error) = writer.write("key", &1) {
            failed = Some(error);
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(matches!(failed.unwrap(), Error::Io { .. }));
    assert!(matches!(writer.write("key", &1), Err(Error::Io { .. })));
    assert!(matches!(writer.close(), Err(Error::Io { .. })));

    // The last bytes are written by close; a command that fails is an error there too.
    let mut output = Output::create("| exit 4").unwrap();
    let _ = output.write_all(b"unread");
    let message = output.close().unwrap_err().chain();
    assert!(message.contains("exit status: 4"), "{message}");
    let mut output = Output::create("| cat > /dev/null").unwrap();
    output.write_all(&[0; 300_000]).unwrap();
    output.close().unwrap();
    // And the signal's mask is as before: the process still answers to it.
    // SAFETY: the sets are plain data and filled by the call.
    let blocked = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        libc::sigismember(&mask, libc::SIGPIPE)
    };
    assert_eq!(blocked, 0);
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Standard input and output as tables: the test starts itself once more with pipes on both.
#[test]
fn standard_streams() {
    const CHILD: &str = "KOSHI_TEST_STANDARD_STREAMS";
    if std::env::var_os(CHILD).is_some() {
        let mut reader = SequentialReader::<Int>::open("ark:-").unwrap();
        let mut writer = TableWriter::<Int>::open("ark,t:-").unwrap();
        while let Some((key, value)) = reader.next().unwrap() {
            writer.write(&key, &(value + 1)).unwrap();
        }
        return writer.close().unwrap();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "standard_streams", "--nocapture"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a 1\nb \0B\x04\x02\0\0\0").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("a 2 \nb 3 \n"), "{text}");
}
