//! The states of one level, waiting to be expanded, as small as their words allow.

/// State vectors of equal width, one after the other, in 16-bit words as long as those suffice.
#[derive(Debug)]
pub(crate) struct Vectors {
    width: usize,
    words: Words,
}

#[derive(Debug)]
enum Words {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Vectors {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            words: Words::Narrow(Vec::new()),
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        let words = match &self.words {
            Words::Narrow(words) => words.len(),
            Words::Wide(words) => words.len(),
        };
        words / self.width
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.words {
            Words::Narrow(words) => words.len() * 2,
            Words::Wide(words) => words.len() * 4,
        }
    }

    pub(crate) fn push(&mut self, vector: &[u32]) {
        if let Words::Narrow(words) = &mut self.words {
            if vector.iter().all(|&word| word <= u32::from(u16::MAX)) {
                words.extend(vector.iter().map(|&word| word as u16));
                return;
            }
            self.words = Words::Wide(words.iter().map(|&word| u32::from(word)).collect());
        }
        if let Words::Wide(words) = &mut self.words {
            words.extend_from_slice(vector);
        }
    }

    /// Copies the vector at a position.
    #[inline]
    pub(crate) fn load(&self, at: usize, vector: &mut [u32]) {
        let range = at * self.width..(at + 1) * self.width;
        match &self.words {
            Words::Narrow(words) => {
                for (to, &from) in vector.iter_mut().zip(&words[range]) {
                    *to = u32::from(from);
                }
            }
            Words::Wide(words) => vector.copy_from_slice(&words[range]),
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

    /// Returns the shard and the place within it of a place in the sequence.
    #[inline]
    pub(crate) fn locate(&self, at: usize) -> (usize, usize) {
        let shard = self.starts.partition_point(|&start| start <= at) - 1;
        (shard, at - self.starts[shard])
    }

    /// Copies the vector at a place in the sequence.
    #[inline]
    pub(crate) fn load(&self, at: usize, vector: &mut [u32]) {
        let (shard, index) = self.locate(at);
        self.shards[shard].load(index, vector);
    }

    /// Calls back with each vector of a range, in order.
    pub(crate) fn for_each(
        &self,
        range: std::ops::Range<usize>,
        vector: &mut [u32],
        mut visit: impl FnMut(usize, &[u32]),
    ) {
        let mut at = range.start;
        while at < range.end {
            let (shard, index) = self.locate(at);
            let count = (self.shards[shard].len() - index).min(range.end - at);
            for offset in 0..count {
                self.shards[shard].load(index + offset, vector);
                visit(at + offset, vector);
            }
            at += count;
        }
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
            vectors.push(vector);
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
            values.iter().for_each(|&value| vectors.push(&[value]));
            vectors
        };
        let level = Level::new(vec![shard(&[]), shard(&[5, 6]), shard(&[]), shard(&[7])]);
        let mut seen = Vec::new();
        level.for_each(0..level.len(), &mut [0], |at, vector| {
            seen.push((at, vector[0]))
        });
        assert_eq!(seen, [(0, 5), (1, 6), (2, 7)]);
        assert_eq!(level.locate(2), (3, 0));
    }
}
