//! Exit codes: the one table that `main` maps results through.

use std::process::ExitCode;

/// How a run ended, worst last: when several apply, the greatest decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Exit {
    /// Everything selected came out as declared.
    #[default]
    AsDeclared,
    /// A budget ran out before a verdict.
    Budget,
    /// Nothing was selected, or a state that a case must reach was not reached.
    Vacuous,
    /// A rule was violated that is not declared, a declared violation did not happen, or a mutant was missed.
    Failed,
    /// Wrong usage, configuration or file.
    Usage,
    /// A bug in wbcheck.
    Internal,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::AsDeclared => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Budget => 3,
            Exit::Vacuous => 4,
            Exit::Internal => 70,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(e: Exit) -> ExitCode {
        ExitCode::from(e.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn codes_are_the_contract() {
        let codes = [Exit::AsDeclared, Exit::Failed, Exit::Usage, Exit::Budget, Exit::Vacuous, Exit::Internal].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 70]);
    }

    #[test]
    fn the_worst_result_decides() {
        assert_eq!([Exit::Budget, Exit::Failed, Exit::Vacuous].into_iter().max(), Some(Exit::Failed));
        assert_eq!([Exit::Usage, Exit::Internal].into_iter().max(), Some(Exit::Internal));
    }
}
