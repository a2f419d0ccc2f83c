//! What must be reached, and whether it was: a line each, at the end.

use std::fmt;

/// A bound for a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

/// A figure with its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What was measured.
    pub name: String,
    /// The figure: the median of the rounds.
    pub figure: f64,
    /// What it should be.
    pub bound: Bound,
    /// How far the rounds were apart, or whatever else helps to judge the figure.
    pub note: String,
}

impl Target {
    /// A figure that should be at least `least`.
    pub fn at_least(name: impl Into<String>, figure: f64, least: f64) -> Self {
        Self::new(name, figure, Bound::AtLeast(least))
    }

    /// A figure that should be at most `most`.
    pub fn at_most(name: impl Into<String>, figure: f64, most: f64) -> Self {
        Self::new(name, figure, Bound::AtMost(most))
    }

    fn new(name: impl Into<String>, figure: f64, bound: Bound) -> Self {
        Self {
            name: name.into(),
            figure,
            bound,
            note: String::new(),
        }
    }

    /// With a remark.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        let note = note.into();
        Self { note, ..self }
    }

    /// Whether the bound is kept.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.figure >= least,
            Bound::AtMost(most) => self.figure <= most,
        }
    }
}

/// `name: figure (target …), ok` or `…, short`, and the remark after it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(least) => ("at least", least),
            Bound::AtMost(most) => ("at most", most),
        };
        let verdict = if self.is_met() { "ok" } else { "short" };
        let (name, figure) = (&self.name, self.figure);
        write!(f, "{name}: {figure:.2} (target {sign} {bound}), {verdict}")?;
        match self.note.as_str() {
            "" => Ok(()),
            note => write!(f, "  [{note}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whether_the_figure_is_within_its_bound() {
        let shown = |target: Target| target.to_string();
        let line = shown(Target::at_least("drain", 0.85, 0.8));
        assert_eq!(line, "drain: 0.85 (target at least 0.8), ok");
        let line = shown(Target::at_most("idle", 0.7, 0.5).note("0.6 to 0.8"));
        assert_eq!(line, "idle: 0.70 (target at most 0.5), short  [0.6 to 0.8]");
        assert!(Target::at_most("even", 0.5, 0.5).is_met());
    }
}
