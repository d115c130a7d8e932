//! The messages of the three links, each direction its own type.
//!
//! | module | between |
//! |---|---|
//! | [`host`] | the hook in the service's process and its agent |
//! | [`peer`] | two agents |
//! | [`checker`] | an agent and its checker process |
//!
//! Kinds are numbered over all links, so that a frame on the wrong link is an unknown kind and not another message.

pub mod checker;
pub mod host;
pub mod peer;

/// Declares one direction of a link: its kinds, their numbers, what they carry and how large their bodies may be.
///
/// Bodies are MessagePack values, or written by their own [`Compact`](crate::compact::Compact) where that is said.
macro_rules! messages {
    (@write $body:ident $out:ident) => { $crate::frame::write($body, $out) };
    (@write $body:ident $out:ident compact) => {{
        $crate::compact::Compact::put($body, $out);
        Ok(())
    }};
    (@read $body:ident) => { $crate::frame::read_exactly($body) };
    (@read $body:ident compact) => { $crate::compact::read_exactly($body) };
    (
        $(#[$outer:meta])*
        pub enum $name:ident {
            $($(#[$doc:meta])* $code:literal $variant:ident($body:ty) $([$form:ident])? up to $max:expr,)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum $name {
            $($(#[$doc])* $variant($body),)*
        }

        impl $crate::frame::Message for $name {
            fn kind(&self) -> u8 {
                match self { $(Self::$variant(_) => $code,)* }
            }

            fn write_body(&self, out: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error> {
                match self { $(Self::$variant(body) => messages!(@write body out $($form)?),)* }
            }

            fn body_bytes_max(kind: u8) -> Option<usize> {
                match kind { $($code => Some($max),)* _ => None }
            }

            fn read_body(kind: u8, body: &[u8]) -> Result<Self, String> {
                match kind {
                    $($code => messages!(@read body $($form)?).map(Self::$variant),)*
                    _ => Err(format!("kind {kind:#04x} is not of this link")),
                }
            }
        }

        $(impl From<$body> for $name {
            fn from(body: $body) -> Self {
                Self::$variant(body)
            }
        })*
    };
}
pub(crate) use messages;
