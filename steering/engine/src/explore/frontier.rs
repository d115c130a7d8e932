//! The states of one level, waiting to be expanded, as small as their words allow.

use crate::explore::processor::prefetch;
use crate::interned::sleep::Nodes;
use crate::interned::tables::Word;

/// State vectors of equal width, one after the other, in 16-bit words as long as those suffice.
#[derive(Debug)]
pub(crate) struct Vectors {
    width: usize,
    words: Words,
    /// For each vector, who is asleep in it.
    asleep: Vec<Nodes>,
}

#[derive(Debug)]
enum Words {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

/// Some vectors one after the other, borrowed in the words they are kept in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    Narrow(&'a [u16]),
    Wide(&'a [u32]),
}

impl Vectors {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            words: Words::Narrow(Vec::new()),
            asleep: Vec::new(),
        }
    }

    /// Forgets the vectors, but keeps their room.
    fn clear(&mut self) {
        match &mut self.words {
            Words::Narrow(words) => words.clear(),
            Words::Wide(words) => words.clear(),
        }
        self.asleep.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.asleep.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        let words = match &self.words {
            Words::Narrow(words) => words.len() * 2,
            Words::Wide(words) => words.len() * 4,
        };
        words + self.asleep.len() * size_of::<Nodes>()
    }

    pub(crate) fn push(&mut self, vector: &[u32], asleep: Nodes) {
        self.asleep.push(asleep);
        if let Words::Narrow(words) = &mut self.words {
            if vector.iter().all(|&word| word <= u32::from(u16::MAX)) {
                words.extend(vector.iter().map(|&word| word as u16));
                return;
            }
            self.widen();
        }
        if let Words::Wide(words) = &mut self.words {
            words.extend_from_slice(vector);
        }
    }

    /// Appends a copy of a vector and hands it out to be changed. Both must be in words of the same size.
    #[inline]
    pub(crate) fn push_copy<'a>(&'a mut self, row: Rows<'_>, asleep: Nodes) -> Option<RowMut<'a>> {
        let copy = match (&mut self.words, row) {
            (Words::Narrow(words), Rows::Narrow(row)) => {
                let at = words.len();
                words.extend_from_slice(row);
                RowMut::Narrow(&mut words[at..])
            }
            (Words::Wide(words), Rows::Wide(row)) => {
                let at = words.len();
                words.extend_from_slice(row);
                RowMut::Wide(&mut words[at..])
            }
            _ => return None,
        };
        self.asleep.push(asleep);
        Some(copy)
    }

    #[cold]
    fn widen(&mut self) {
        if let Words::Narrow(words) = &self.words {
            self.words = Words::Wide(words.iter().map(|&word| u32::from(word)).collect());
        }
    }

    #[inline]
    fn rows(&self, range: std::ops::Range<usize>) -> Rows<'_> {
        let range = range.start * self.width..range.end * self.width;
        match &self.words {
            Words::Narrow(words) => Rows::Narrow(&words[range]),
            Words::Wide(words) => Rows::Wide(&words[range]),
        }
    }

    /// Copies the vector at a position.
    pub(crate) fn load(&self, at: usize, vector: &mut [u32]) {
        self.rows(at..at + 1).load(vector);
    }
}

/// One vector to be changed.
#[derive(Debug)]
pub(crate) enum RowMut<'a> {
    Narrow(&'a mut [u16]),
    Wide(&'a mut [u32]),
}

impl Rows<'_> {
    /// Copies a single vector.
    pub(crate) fn load(&self, vector: &mut [u32]) {
        match self {
            Self::Narrow(words) => vector
                .iter_mut()
                .zip(*words)
                .for_each(|(to, &word)| *to = word.get()),
            Self::Wide(words) => vector.copy_from_slice(words),
        }
    }

    /// Starts to fetch the first word.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Narrow(words) => prefetch(&words[0]),
            Self::Wide(words) => prefetch(&words[0]),
        }
    }

    /// Returns one word.
    #[cfg(test)]
    pub(crate) fn word(&self, at: usize) -> u32 {
        match self {
            Self::Narrow(words) => words[at].get(),
            Self::Wide(words) => words[at].get(),
        }
    }
}

/// One level: the vectors of all shards, addressed as one sequence.
#[derive(Debug)]
pub(crate) struct Level {
    shards: Vec<Vectors>,
    /// Where in the sequence each shard starts, and at the end the length of all.
    starts: Vec<usize>,
}

impl Level {
    pub(crate) fn new(shards: Vec<Vectors>) -> Self {
        let mut starts = vec![0];
        for shard in &shards {
            starts.push(starts[starts.len() - 1] + shard.len());
        }
        Self { shards, starts }
    }

    /// Returns the vectors of every shard.
    pub(crate) fn shards(&self) -> &[Vectors] {
        &self.shards
    }

    /// Gives the room of its vectors back, to be filled anew.
    pub(crate) fn recycle(self) -> Vec<Vectors> {
        let mut shards = self.shards;
        shards.iter_mut().for_each(Vectors::clear);
        shards
    }

    pub(crate) fn len(&self) -> usize {
        self.starts[self.shards.len()]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(Vectors::bytes).sum()
    }

    /// Returns where a shard's vectors start in the sequence.
    pub(crate) fn start_of(&self, shard: usize) -> usize {
        self.starts[shard]
    }

    fn shard_at(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at) - 1
    }

    /// Returns the vector at a place in the sequence. For places that rise, `hint` saves most of the search.
    #[inline]
    pub(crate) fn row(&self, at: usize, hint: &mut usize) -> Rows<'_> {
        if at < self.starts[*hint] || at >= self.starts[*hint + 1] {
            *hint = self.shard_at(at);
        }
        let index = at - self.starts[*hint];
        self.shards[*hint].rows(index..index + 1)
    }

    /// Returns the vectors of a range in runs, each with the place of its first and with who is asleep in them.
    pub(crate) fn runs(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (usize, Rows<'_>, &[Nodes])> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let (first, shard) = (at, self.shard_at(at));
                at = range.end.min(self.starts[shard + 1]);
                let start = self.starts[shard];
                let range = first - start..at - start;
                let vectors = &self.shards[shard];
                (first, vectors.rows(range.clone()), &vectors.asleep[range])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_that_needs_wide_words_widens_those_before_it() {
        let mut vectors = Vectors::new(2);
        let all: [[u32; 2]; 4] = [[1, 2], [65_535, 0], [65_536, 7], [3, u32::MAX]];
        for vector in &all {
            vectors.push(vector, 0);
        }
        let mut loaded = [0; 2];
        for (at, vector) in all.iter().enumerate() {
            vectors.load(at, &mut loaded);
            assert_eq!(loaded, *vector);
        }
        assert_eq!(vectors.len(), 4);
    }

    #[test]
    fn a_level_reads_as_one_sequence_over_empty_shards() {
        let shard = |values: &[u32]| {
            let mut vectors = Vectors::new(1);
            values.iter().for_each(|&value| vectors.push(&[value], 0));
            vectors
        };
        let level = Level::new(vec![shard(&[]), shard(&[5, 6]), shard(&[]), shard(&[7, 8])]);
        let read = |range| {
            let runs = level.runs(range);
            runs.map(|(at, rows, _)| (at, rows.word(0)))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(0..4), [(0, 5), (2, 7)]);
        assert_eq!(read(1..3), [(1, 6), (2, 7)]);
        let mut hint = 0;
        assert_eq!(
            [3, 0, 2, 1].map(|at| level.row(at, &mut hint).word(0)),
            [8, 5, 7, 6]
        );
    }
}
