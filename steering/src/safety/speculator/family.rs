//! The speculator itself: a parent that forks ahead of the questions, and its children, each of which answers one.
//!
//! A child is forked while nobody waits. It waits for its turn, reads the next question off the host's socket, answers it
//! there, gives the turn to the next child and is gone: between question and answer nobody else need wake up. Since each child answers once, nothing that a handler does to its process reaches
//! another question. The kernel ends a child that takes too long.
//!
//! What the host says beside questions is for the parent. The child whose turn it is looks at the first byte only and
//! leaves such a message where it is; the parent reads it, gives up the children that do not know of it, and forks others.
//!
//! Each child tells its parent how far it came by notes in a pipe, which are read when it is gone: the parent answers in
//! the place of a child that died of a question.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid, pipe2};
use scry_protocol::{CheckpointNumber, Content, Incarnation, Past, messagepack};

use crate::blame::{self, Phase};
use crate::capture;
use crate::safety::child::{
    CheckError, end_by_alarm, end_of, live_at_most, reap, spawn, unanswered,
};
use crate::safety::speculator::VETTING_MAX;
use crate::safety::speculator::words::{
    Answer, Check, Order, Said, Spoken, read_check, read_order, write_answer,
};
use crate::safety::trial::{Spot, Trial, Trouble, looks_at_neighbors};
use crate::safety::vetting::{Neighbors, Vetting, without};
use scry_engine::model::event::InputOf;
use scry_engine::property::Property;
use scry_engine::service::Service;

/// How many children wait for a question. While one ends and another is forked in its place, the others answer.
const CHILDREN_COUNT: usize = 3;

/// What a child notes: that it is its turn, that it has read a question whole (the id follows), that it has answered,
/// that the turn is another's; or that what comes is not for it, or that nothing comes any more.
const TURN: u8 = b't';
const READ: u8 = b'r';
const ANSWERED: u8 = b'a';
const GAVE_TURN: u8 = b'g';
const ORDER: u8 = b'o';
const CLOSED: u8 = b'c';

/// Plays the speculator's part on standard input, until the host is gone.
pub fn serve<S: Service>() {
    // Without it the process ends all the same when the host closes its end.
    let _ = set_pdeathsig(Signal::SIGKILL);
    end_by_alarm();
    // Without it, what a child died of is taken for the handler, and no neighbor's state is worked with.
    let _ = blame::share_with_children();
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let Ok((turn_reader, turn_writer)) = pipe2(OFlag::O_CLOEXEC) else {
        return;
    };
    let family = Family::<S> {
        stream: UnixStream::from(input),
        properties: scry_properties::from_text(""),
        neighbors: Neighbors(Vec::new()),
        vetting: Vetting::default(),
        vetted: 0,
        troubles: Vec::new(),
        left_out: Vec::new(),
        turn_reader: File::from(turn_reader),
        turn_writer: File::from(turn_writer),
        children: Vec::new(),
    };
    // An error is the host's end, or nothing that another process would not do better.
    let _ = family.live();
}

struct Family<S: Service> {
    stream: UnixStream,
    properties: Result<Vec<Property<S>>, String>,
    neighbors: Neighbors<S>,
    vetting: Vetting,
    /// Which states of the neighbors were looked at last, and what is wrong with them.
    vetted: u64,
    troubles: Vec<Trouble>,
    /// What was not tried, since the host knows that it is bad.
    left_out: Vec<Spot>,
    /// A pipe that holds one byte, or none while a child has the turn.
    turn_reader: File,
    turn_writer: File,
    children: Vec<Child>,
}

struct Child {
    process: Pid,
    notes: File,
}

/// What the host has to say next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Check,
    Order,
    Nothing,
    Closed,
}

/// How far a child came.
#[derive(Debug, Default, Eq, PartialEq)]
struct Notes {
    has_turn: bool,
    read: Option<u64>,
    answered: bool,
    gave_turn: bool,
    order: bool,
    closed: bool,
}

impl<S: Service> Family<S> {
    fn live(mut self) -> std::io::Result<()> {
        self.begin()?;
        loop {
            if let Err(error) = self.multiply()
                && self.children.is_empty()
            {
                self.answer_without_child(error)?;
                continue;
            }
            let Ok(status) = waitpid(None, None) else {
                continue;
            };
            let Some(process) = status.pid() else {
                continue;
            };
            let Some(at) = self.children.iter().position(|c| c.process == process) else {
                continue;
            };
            let notes = Notes::read(&mut self.children.swap_remove(at).notes);
            match notes {
                Notes { closed: true, .. } => return Ok(()),
                Notes { order: true, .. } => {
                    self.give_up_children();
                    self.begin()?;
                }
                Notes {
                    gave_turn: true, ..
                } => {}
                Notes {
                    read: Some(id),
                    answered: false,
                    ..
                } => {
                    let error = match status {
                        WaitStatus::Signaled(_, Signal::SIGALRM, _) => {
                            CheckError::Late(Duration::ZERO)
                        }
                        status => CheckError::Died(end_of(Some(status))),
                    };
                    let said = match unanswered(error, blame::take()) {
                        Ok(verdict) => Said::Verdict(verdict),
                        Err(CheckError::Late(_)) => Said::Late,
                        Err(error) => Said::Unreadable(error.to_string()),
                    };
                    let answer = self.answer(id, said);
                    write_answer(&mut self.stream, &answer)?;
                    self.turn_writer.write_all(&[TURN])?;
                }
                // Killed from outside: how much of a question it has read is not known, or who has the turn now.
                _ => return Ok(()),
            }
        }
    }

    /// Reads all that is not a question, and lets the children have the next turn.
    fn begin(&mut self) -> std::io::Result<()> {
        while self.next(MsgFlags::MSG_DONTWAIT) == Next::Order {
            self.follow()?;
        }
        self.turn_writer.write_all(&[TURN])
    }

    fn follow(&mut self) -> std::io::Result<()> {
        match read_order(&mut self.stream)? {
            Order::CheckSettings(text) => {
                self.properties = scry_properties::from_text(&text);
                self.vetting.clear();
            }
            Order::Surroundings(told) => {
                self.vetted = told.count;
                self.troubles.clear();
                self.left_out = told.left_out;
                self.neighbors = Neighbors(Vec::new());
                let properties = self.properties.as_deref().unwrap_or_default();
                if looks_at_neighbors(properties) {
                    let (states, left_out) = (&told.surroundings, &self.left_out);
                    self.troubles = self.vetting.vet(states, properties, VETTING_MAX, left_out);
                    self.neighbors = Neighbors::read(&without(states, &self.bad()));
                }
                // What takes too long has made a question late that would have told of it; so it is told by itself.
                if !self.troubles.is_empty() {
                    let answer = self.answer(0, Said::Vetted);
                    write_answer(&mut self.stream, &answer)?;
                }
            }
        }
        Ok(())
    }

    fn bad(&self) -> Vec<Spot> {
        let found = self.troubles.iter().map(|trouble| trouble.spot);
        self.left_out.iter().copied().chain(found).collect()
    }

    fn answer(&self, id: u64, said: Said) -> Answer {
        Answer {
            id,
            said,
            vetted: self.vetted,
            troubles: self.troubles.clone(),
        }
    }

    /// Looks at what comes, and leaves it there.
    fn next(&self, flags: MsgFlags) -> Next {
        let mut kind = [0];
        loop {
            let seen = recv(
                self.stream.as_raw_fd(),
                &mut kind,
                MsgFlags::MSG_PEEK | flags,
            );
            return match seen {
                Err(nix::Error::EINTR) => continue,
                Err(nix::Error::EAGAIN) => Next::Nothing,
                Ok(1) if kind == [Check::KIND] => Next::Check,
                Ok(1) if kind == [Order::KIND] => Next::Order,
                Ok(_) | Err(_) => Next::Closed,
            };
        }
    }

    fn multiply(&mut self) -> nix::Result<()> {
        while self.children.len() < CHILDREN_COUNT {
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
            let parent = getpid();
            let process = spawn(|| {
                // An error means that nobody is left to tell of it.
                let _ = self.answer_one(parent, File::from(writer));
            })?;
            self.children.push(Child {
                process,
                notes: File::from(reader),
            });
        }
        Ok(())
    }

    fn give_up_children(&mut self) {
        for child in self.children.drain(..) {
            // It may be gone already.
            let _ = kill(child.process, Signal::SIGKILL);
            reap(child.process);
        }
    }

    /// When there is no process to be had, that is the answer.
    fn answer_without_child(&mut self, error: nix::Error) -> std::io::Result<()> {
        match self.next(MsgFlags::empty()) {
            Next::Order => self.follow(),
            Next::Check => {
                let Check { id, .. } = read_check(&mut self.stream)?;
                let answer = self.answer(id, Said::ForkFailed(error as i32));
                write_answer(&mut self.stream, &answer)
            }
            Next::Nothing | Next::Closed => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// What a child does.
    fn answer_one(&mut self, parent: Pid, mut notes: File) -> std::io::Result<()> {
        // It must not answer for a parent that is gone: who would answer if it dies of the question?
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Ok(());
        }
        self.turn_reader.read_exact(&mut [0])?;
        notes.write_all(&[TURN])?;
        match self.next(MsgFlags::empty()) {
            Next::Check => {}
            Next::Order => return notes.write_all(&[ORDER]),
            Next::Nothing | Next::Closed => return notes.write_all(&[CLOSED]),
        }
        let check = read_check(&mut self.stream)?;
        let id = check.id;
        let mut note = [READ; 9];
        note[1..].copy_from_slice(&id.to_le_bytes());
        notes.write_all(&note)?;
        live_at_most(Duration::from_micros(check.limit_us));
        let bad = [self.bad(), check.bad.clone()].concat();
        let said = match &self.properties {
            Ok(properties) => attempt(properties, &self.neighbors, &bad, check),
            Err(error) => Said::Unreadable(error.clone()),
        };
        // From here on it is not the handler that takes time, and half an answer would be worse than a late one.
        live_at_most(Duration::ZERO);
        let answer = self.answer(id, said);
        write_answer(&mut self.stream, &answer)?;
        notes.write_all(&[ANSWERED])?;
        self.turn_writer.write_all(&[TURN])?;
        notes.write_all(&[GAVE_TURN])
    }
}

impl Notes {
    /// Reads the notes of a child that is gone. What is not a note was written by a handler that damaged its process.
    fn read(pipe: &mut File) -> Self {
        let mut bytes = [0; 64];
        let length = pipe.read(&mut bytes).unwrap_or(0);
        Self::parse(&bytes[..length])
    }

    fn parse(mut bytes: &[u8]) -> Self {
        let mut notes = Self::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            bytes = rest;
            match kind {
                TURN => notes.has_turn = true,
                ANSWERED => notes.answered = true,
                GAVE_TURN => notes.gave_turn = true,
                ORDER => notes.order = true,
                CLOSED => notes.closed = true,
                READ => {
                    let Some((id, rest)) = rest.split_first_chunk() else {
                        break;
                    };
                    notes.read = Some(u64::from_le_bytes(*id));
                    bytes = rest;
                }
                _ => break,
            }
        }
        notes
    }
}

fn attempt<S: Service>(
    properties: &[Property<S>],
    neighbors: &Neighbors<S>,
    bad: &[Spot],
    check: Check,
) -> Said {
    let content = Content {
        incarnation: Incarnation::new(0),
        born: CheckpointNumber::from(0),
        past: Past::default(),
        state: check.state,
        timers: check.timers,
        channels: None,
    };
    let read = blame::on(Phase::Reading, Some(check.me), || {
        capture::read::<S>(&content)
    });
    let (setup, captured) = match read {
        Ok(read) => read,
        Err(error) => return Said::Unreadable(error.to_string()),
    };
    let input: InputOf<S> = match messagepack::from_slice(&check.input) {
        Ok(input) => input,
        Err(error) => return Said::Unreadable(error.to_string()),
    };
    let trial = Trial {
        me: check.me,
        setup: &setup,
        properties,
        neighbors: neighbors.all(),
        standing: &check.standing,
        bad,
    };
    let local = &captured.local;
    Said::Verdict(trial.answer(check.what, local, &input, check.dice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_how_far_a_child_came() {
        let check = |bytes: &[u8], expect: Notes| assert_eq!(Notes::parse(bytes), expect);
        let begun = || Notes {
            has_turn: true,
            ..Notes::default()
        };
        check(b"", Notes::default());
        check(b"t", begun());
        check(
            b"tr\x07\0\0\0\0\0\0\0",
            Notes {
                read: Some(7),
                ..begun()
            },
        );
        check(
            b"tr\x07\0\0\0\0\0\0\0a",
            Notes {
                read: Some(7),
                answered: true,
                ..begun()
            },
        );
        check(
            b"to",
            Notes {
                order: true,
                ..begun()
            },
        );
        check(b"tr\x07\0", begun());
        check(b"t\xff\xffa", begun());
    }
}
