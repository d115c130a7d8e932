//! Reads the log back in the order it was written, and follows it as it grows and turns over.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How far back turned-over files are looked for.
const AGE_MAX: u32 = 10_000;
const PIECE_BYTES: usize = 64 << 10;
/// A line beyond this is no record, and is not kept in memory.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads the lines of a log.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    file: Option<File>,
    /// Files to be read after this one, the next last.
    next: Vec<File>,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    /// Whether the line that goes on is too long to be one.
    overlong: bool,
}

#[derive(Debug)]
enum Source {
    File(PathBuf),
    Directory(PathBuf),
}

impl Reader {
    /// Begins at the oldest record: of a file, or of all files of a log directory.
    ///
    /// # Errors
    ///
    /// When there is no such file or directory, or it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (source, next) = if fs::metadata(path)?.is_dir() {
            // Opened from the youngest on: a file that turns over meanwhile is then found twice rather than never.
            (Source::Directory(path.to_owned()), open_all(path)?)
        } else {
            (Source::File(path.to_owned()), vec![File::open(path)?])
        };
        Ok(Self {
            source,
            file: None,
            next,
            begun: Vec::new(),
            overlong: false,
        })
    }

    /// Returns the lines that are there by now and were not returned before. A line that is still being written comes
    /// when it is whole.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            if self.file.is_none() {
                self.file = self.next.pop();
            }
            let Some(file) = &mut self.file else {
                if self.look_for_more()? {
                    continue;
                }
                return Ok(lines);
            };
            let mut piece = vec![0; PIECE_BYTES];
            let count = file.read(&mut piece)?;
            if count > 0 {
                self.take(&piece[..count], &mut lines);
                continue;
            }
            let more = !self.next.is_empty() || self.look_for_more()?;
            if !more {
                return Ok(lines);
            }
            // One more look: it may have grown between its end and its turning over.
            let file = self.file.as_mut().expect("it was just read");
            let mut rest = Vec::new();
            file.read_to_end(&mut rest)?;
            self.take(&rest, &mut lines);
            self.end_line(&mut lines);
            self.file = None;
        }
    }

    fn take(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.keep(&bytes[..end]);
            self.end_line(lines);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.overlong |= self.begun.len() + bytes.len() > LINE_BYTES_MAX;
        if self.overlong {
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, lines: &mut Vec<String>) {
        let overlong = std::mem::take(&mut self.overlong);
        let line = std::mem::take(&mut self.begun);
        if !overlong && !line.is_empty() {
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
    }

    /// Finds the files that came after the present one, and tells whether there are any.
    fn look_for_more(&mut self) -> io::Result<bool> {
        let present = match &self.file {
            Some(file) => Some(identity(file)?),
            None => None,
        };
        self.next = match &self.source {
            Source::Directory(directory) => open_after(directory, present)?,
            Source::File(path) => match File::open(path) {
                Ok(file) if Some(identity(&file)?) != present => vec![file],
                Ok(_) => Vec::new(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            },
        };
        Ok(!self.next.is_empty())
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

fn open_all(directory: &Path) -> io::Result<Vec<File>> {
    open_after(directory, None)
}

/// Opens the files younger than one, from the youngest to the oldest; all if it is none of them.
fn open_after(directory: &Path, present: Option<(u64, u64)>) -> io::Result<Vec<File>> {
    let mut files: Vec<File> = Vec::new();
    let mut seen: Vec<(u64, u64)> = Vec::new();
    for age in 0..AGE_MAX {
        match File::open(super::file(directory, age)) {
            Ok(file) => {
                let identity = identity(&file)?;
                if Some(identity) == present {
                    break;
                }
                // It turned over between two looks.
                if !seen.contains(&identity) {
                    seen.push(identity);
                    files.push(file);
                }
            }
            // The growing one is missing for a moment while it turns over.
            Err(error) if error.kind() == io::ErrorKind::NotFound && age == 0 => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}
