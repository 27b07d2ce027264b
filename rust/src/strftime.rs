//! `strftime_now`: Python's `datetime.strftime` in the C locale, for the local time given with the request.

/// A local time as the calendar shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl LocalTime {
    /// Reads `2026-03-04T09:26:53` (a space for the T, and a missing time of day, are fine).
    pub fn parse(text: &str) -> Option<LocalTime> {
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, time),
            None => (text, "00:00:00"),
        };
        let mut date = date.split('-').map(|p| p.parse::<u32>().ok());
        let time = time.split(['.', '+', 'Z']).next().unwrap_or("");
        let mut time = time.split(':').map(|p| p.parse::<u32>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let (hour, minute) = (time.next()??, time.next()??);
        let second = time.next().flatten().unwrap_or(0);
        let valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second < 62;
        valid.then_some(LocalTime {
            year: i64::from(year),
            month,
            day,
            hour,
            minute,
            second,
        })
    }

    fn leap(year: i64) -> bool {
        (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
    }

    /// Days since 1 January, from 0.
    fn year_day(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap = i64::from(Self::leap(self.year) && self.month > 2);
        BEFORE[self.month as usize - 1] + leap + i64::from(self.day) - 1
    }

    /// Days since 1 January 1970.
    fn epoch_day(&self) -> i64 {
        let before = |year: i64| year * 365 + year / 4 - year / 100 + year / 400;
        before(self.year - 1) - before(1969) + self.year_day()
    }

    /// 0 is Monday.
    fn week_day(&self) -> i64 {
        (self.epoch_day() + 3).rem_euclid(7)
    }

    /// ISO 8601 year and week.
    fn iso_week(&self) -> (i64, i64) {
        let week = (self.year_day() - self.week_day() + 10) / 7;
        let weeks_in = |year: i64| {
            let p = |y: i64| (y + y / 4 - y / 100 + y / 400).rem_euclid(7);
            if p(year) == 4 || p(year - 1) == 3 {
                53
            } else {
                52
            }
        };
        if week < 1 {
            (self.year - 1, weeks_in(self.year - 1))
        } else if week > weeks_in(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, week)
        }
    }

    /// Formats by a `strftime` pattern; a code it does not know stays as it is.
    pub fn format(&self, pattern: &str) -> String {
        let mut out = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('-') => match chars.next() {
                    Some(code) => {
                        let text = self.code(code).unwrap_or_else(|| format!("%-{code}"));
                        let short = text.trim_start_matches(['0', ' ']);
                        out.push_str(if short.is_empty() { "0" } else { short });
                    }
                    None => out.push_str("%-"),
                },
                Some(code) => match self.code(code) {
                    Some(text) => out.push_str(&text),
                    None => {
                        out.push('%');
                        out.push(code);
                    }
                },
                None => out.push('%'),
            }
        }
        out
    }

    fn code(&self, code: char) -> Option<String> {
        let hour12 = (self.hour + 11) % 12 + 1;
        let day = DAYS[self.week_day() as usize];
        let month = MONTHS[self.month as usize - 1];
        Some(match code {
            'Y' => self.year.to_string(),
            'C' => format!("{:02}", self.year / 100),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'k' => format!("{:2}", self.hour),
            'I' => format!("{hour12:02}"),
            'l' => format!("{hour12:2}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => "000000".into(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.into(),
            'P' => if self.hour < 12 { "am" } else { "pm" }.into(),
            'a' => day[..3].into(),
            'A' => day.into(),
            'b' | 'h' => month[..3].into(),
            'B' => month.into(),
            'j' => format!("{:03}", self.year_day() + 1),
            'u' => (self.week_day() + 1).to_string(),
            'w' => ((self.week_day() + 1) % 7).to_string(),
            'U' => format!(
                "{:02}",
                (self.year_day() + 7 - (self.week_day() + 1) % 7) / 7
            ),
            'W' => format!("{:02}", (self.year_day() + 7 - self.week_day()) / 7),
            'V' => format!("{:02}", self.iso_week().1),
            'G' => self.iso_week().0.to_string(),
            'g' => format!("{:02}", self.iso_week().0 % 100),
            's' => {
                let minutes = i64::from(self.hour * 60 + self.minute);
                (self.epoch_day() * 86_400 + minutes * 60 + i64::from(self.second)).to_string()
            }
            'D' | 'x' => self.format("%m/%d/%y"),
            'F' => self.format("%Y-%m-%d"),
            'T' | 'X' => self.format("%H:%M:%S"),
            'R' => self.format("%H:%M"),
            'r' => self.format("%I:%M:%S %p"),
            'c' => self.format("%a %b %e %H:%M:%S %Y"),
            'Z' | 'z' => String::new(),
            'n' => "\n".into(),
            't' => "\t".into(),
            '%' => "%".into(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_python() {
        let time = LocalTime::parse("2024-12-30T07:08:09").unwrap();
        assert_eq!(
            time.format("%A %-d %b %Y %I %p %j %V %G %U %W"),
            "Monday 30 Dec 2024 07 AM 365 01 2025 52 53"
        );
        assert_eq!(time.format("%s %Q %"), "1735542489 %Q %");
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in ["", "2024", "2024-13-01", "2024-01-01T25:00:00", "x-y-z"] {
            assert_eq!(LocalTime::parse(text), None, "{text}");
        }
    }
}
