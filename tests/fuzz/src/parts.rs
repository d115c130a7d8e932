//! Cuts an input into the parts that a target of several facts needs.

/// What is left of an input.
#[derive(Debug)]
pub struct Parts<'i>(&'i [u8]);

impl<'i> Parts<'i> {
    /// Begins with all of it.
    pub fn of(input: &'i [u8]) -> Self {
        Self(input)
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Takes a length of one byte and as many bytes, or as many as there are.
    pub fn short(&mut self) -> Option<&'i [u8]> {
        let length = usize::from(self.byte()?);
        Some(self.up_to(length))
    }

    /// Takes a length of two bytes, the lower first, and as many bytes, or as many as there are.
    pub fn long(&mut self) -> Option<&'i [u8]> {
        let length = [self.byte()?, self.byte()?];
        Some(self.up_to(u16::from_le_bytes(length).into()))
    }

    fn up_to(&mut self, length: usize) -> &'i [u8] {
        let (part, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        part
    }
}
