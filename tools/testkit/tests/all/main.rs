//! Integration tests: servers as processes, beside MariaDB where it has the same.

mod accounts;
mod binlog;
mod clients;
mod contention;
mod crash;
mod damage;
mod definitions;
mod explain;
mod faults;
mod first_accounts;
mod flipped;
mod folder;
mod histories;
mod init_file;
mod load;
mod logs;
mod mtr;
mod nesting;
mod queries;
mod schedules;
mod sequences;
mod serve;
mod sysbench;
mod temporary;
mod tls;
mod xa;
