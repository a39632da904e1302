//! The words of a command line: `look exited code=143 run=a` and the like.

use std::time::Duration;

pub(crate) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        Self { words: line.split_whitespace().collect() }
    }

    /// The word at `index` that is no option.
    pub(crate) fn plain(&self, index: usize) -> &'a str {
        self.words.iter().filter(|word| !word.contains('=')).nth(index).copied().unwrap_or("")
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.words.iter().skip(1).any(|word| *word == flag)
    }

    /// Value of `key=…`.
    pub(crate) fn value(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    /// `3/1` as run and restart.
    pub(crate) fn execution(&self, key: &str) -> Option<(u64, u32)> {
        let (run, restart) = self.value(key)?.split_once('/')?;
        Some((run.parse().ok()?, restart.parse().ok()?))
    }

    /// Everything after the first `count` words, as one text.
    pub(crate) fn rest(&self, count: usize) -> String {
        self.words.iter().skip(count).copied().collect::<Vec<_>>().join(" ")
    }
}

/// `90s`, `5m`, `3h`, `20ms`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number * 60),
        "h" => Duration::from_secs(number * 3600),
        _ => return None,
    })
}
