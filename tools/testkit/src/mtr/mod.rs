//! MariaDB's own test suite as the judge: a runner for the language of mysqltest.
//!
//! The scripts of Debian's package `mariadb-test` are read where they are installed and run statement by statement against MariaDB
//! and Keel side by side. The recorded results of the suite are not looked at: MariaDB is asked live. [`script`] reads the language,
//! [`values`] knows variables and conditions, [`masks`] what a script hides of a result, [`compare`] tells answers apart,
//! [`follow`] what only follows from an earlier disagreement, [`pair`] holds servers and connections, [`run`] runs a script,
//! [`groups`] names the scripts that count, [`report`] writes the score.

pub mod compare;
pub mod follow;
pub mod groups;
pub mod masks;
pub mod pair;
pub mod report;
pub mod run;
pub mod script;
pub mod values;
