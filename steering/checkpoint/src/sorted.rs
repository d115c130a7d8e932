//! A sorted list that remembers where it was last looked into: messages mostly go where the last one went. That guess is
//! checked where it is made, which is most of the work; the search is a call apart.

/// Values by key, in the order of the keys.
#[derive(Clone, Debug)]
pub struct Sorted<K, V> {
    entries: Vec<(K, V)>,
    /// Where the last look-up ended; a guess, checked before it is believed.
    last: usize,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            last: 0,
        }
    }
}

impl<K: Ord, V> Sorted<K, V> {
    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds a value, at once if it is the one that was found last.
    #[inline(always)]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = match self.entries.get(self.last) {
            Some((found, _)) if found == key => self.last,
            _ => self.find(key).ok()?,
        };
        Some(&mut self.entries[at].1)
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let at = self.entries.binary_search_by(|(found, _)| found.cmp(key));
        at.ok().map(|at| &self.entries[at].1)
    }

    /// Returns the value of a key, and makes one if there is none.
    #[inline(always)]
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = match self.entries.get(self.last) {
            Some((found, _)) if *found == key => self.last,
            _ => self.find(&key).unwrap_or_else(|at| {
                self.entries.insert(at, (key, make()));
                self.last = at;
                at
            }),
        };
        &mut self.entries[at].1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns everything in order, and is empty then.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.entries.drain(..)
    }

    /// Looks for a key that is not where the last was.
    #[inline(never)]
    fn find(&mut self, key: &K) -> Result<usize, usize> {
        let found = self.entries.binary_search_by(|(other, _)| other.cmp(key));
        if let Ok(at) = found {
            self.last = at;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_whatever_is_done_to_it(steps: Vec<(u8, u8, u16)>) {
            let mut sorted = Sorted::default();
            let mut map = BTreeMap::new();
            for (what, key, value) in steps {
                let key = key % 8;
                match what % 4 {
                    0 => {
                        prop_assert!(sorted.drain().eq(std::mem::take(&mut map)));
                    }
                    1 => {
                        prop_assert_eq!(sorted.get(&key), map.get(&key));
                        prop_assert_eq!(sorted.get_mut(&key), map.get_mut(&key));
                    }
                    _ => {
                        *sorted.entry(key, || 0) += value / 16;
                        *map.entry(key).or_insert(0) += value / 16;
                    }
                }
                prop_assert_eq!(sorted.len(), map.len());
                prop_assert_eq!(sorted.is_empty(), map.is_empty());
                prop_assert!(sorted.iter().eq(map.iter()));
            }
            prop_assert!(sorted.iter_mut().eq(map.iter_mut()));
        }
    }
}
