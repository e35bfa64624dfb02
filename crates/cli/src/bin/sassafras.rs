#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

cli::program!(cli::sassafras);
