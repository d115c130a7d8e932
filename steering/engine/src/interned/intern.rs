//! Hash-consing: equal values get one id, different values different ones.
//!
//! Equality decides, never the hash alone: a service whose `Hash` is careless costs time, not states.

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::interned::id::Id;

/// Values of one kind, each under its id. Ids are given in order of first sight.
#[derive(Debug)]
pub struct Interner<I, T> {
    values: Vec<T>,
    table: HashTable<u32>,
    id: PhantomData<I>,
}

impl<I: Id, T: Eq + Hash> Interner<I, T> {
    /// Returns the value's id, giving it one if it is new.
    pub fn intern(&mut self, value: T) -> I {
        let hash = hash(&value);
        let values = &self.values;
        if let Some(&found) = self.table.find(hash, |&id| values[id as usize] == value) {
            return I::from_index(found as usize);
        }
        let id = I::from_index(self.values.len());
        self.values.push(value);
        let values = &self.values;
        self.table.insert_unique(hash, id.index() as u32, |&id| {
            self::hash(&values[id as usize])
        });
        id
    }

    /// Returns the value of an id.
    pub fn value(&self, id: I) -> &T {
        &self.values[id.index()]
    }

    /// Returns how many different values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Tells whether nothing was interned yet.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns about how many bytes the table takes, not counting what the values point to.
    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>() + self.table.capacity() * 5
    }
}

impl<I, T> Default for Interner<I, T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            table: HashTable::new(),
            id: PhantomData,
        }
    }
}

fn hash<T: Hash>(value: &T) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interned::id::MessageId;

    #[derive(Debug, Eq, PartialEq)]
    struct Careless(u32);

    impl Hash for Careless {
        fn hash<H: Hasher>(&self, state: &mut H) {
            0.hash(state);
        }
    }

    #[test]
    fn values_that_hash_alike_keep_ids_of_their_own() {
        let mut interner: Interner<MessageId, Careless> = Interner::default();
        let ids: Vec<_> = (0..100).map(|n| interner.intern(Careless(n))).collect();
        for n in 0..100 {
            assert_eq!(interner.intern(Careless(n)), ids[n as usize]);
            assert_eq!(*interner.value(ids[n as usize]), Careless(n));
        }
        assert_eq!(interner.len(), 100);
    }
}
