//! Whose results an operation reproduces.

use std::fmt;
use std::str::FromStr;

macro_rules! named_enum {
    ($(#[$meta:meta])* $type:ident, $what:literal, { $($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// All of them, for tables and tests.
            pub const ALL: &[$type] = &[$($type::$variant),*];

            /// The name used on the command line and in recipes.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<$type, String> {
                let names = [$($name),*].join(", ");
                let found = $type::ALL.iter().copied().find(|item| item.name() == text);
                found.ok_or_else(|| format!("there is no {} called {text:?}; choose one of {names}", $what))
            }
        }
    };
}
pub(crate) use named_enum;

named_enum! {
    /// The library whose arithmetic is followed, down to its rounding.
    Semantics, "semantics", {
        /// Pillow, which torchvision uses for PIL images: always antialiased, 22-bit fixed point, colors multiplied by their
        /// alpha where there is one.
        Pil = "pil",
        /// torchvision on tensors (`torch.nn.functional.interpolate`).
        Torchvision = "torchvision",
        /// OpenCV (`cv2.resize` and relatives): never antialiased except with `area`, 11-bit fixed point. OpenCV's own code, not
        /// IPP's, which packages of `cv2` may use for bicubic filters.
        OpenCv = "opencv",
        /// TensorFlow 2 (`tf.image`): computed in floats.
        TensorFlow = "tensorflow",
    }
}

impl Semantics {
    /// Whether the library antialiases by default.
    pub const fn default_antialias(self) -> bool {
        matches!(self, Semantics::Pil | Semantics::Torchvision)
    }
}

named_enum! {
    /// How pixels between pixels are computed.
    Filter, "filter", {
        /// The nearest pixel: for masks.
        Nearest = "nearest",
        /// Straight lines between pixels.
        Bilinear = "bilinear",
        /// Cubic curves between pixels.
        Bicubic = "bicubic",
        /// The mean of the covered area.
        Area = "area",
        /// A windowed sinc.
        Lanczos = "lanczos",
    }
}

/// A combination that the named library does not offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{semantics} has no {operation}; {advice}")]
pub struct Unsupported {
    /// The library.
    pub semantics: Semantics,
    /// What was requested.
    pub operation: String,
    /// What to request instead.
    pub advice: &'static str,
}
