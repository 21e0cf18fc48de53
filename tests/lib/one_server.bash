# For suites with one server for all their tests, which each test finds empty. Loaded after
# common.bash, whose setup_file and setup it replaces:  load lib/one_server
#
# A suite with more to set up has a setup of its own that begins with one_server_setup.
#
# shellcheck shell=bash

one_server_setup_file() {
    common_setup_file
    redis_start
}

one_server_setup() {
    common_setup
    redis_use main
    printf 'flushall\nconfig resetstat\n' | rcli >/dev/null
}

setup_file() { one_server_setup_file; }
setup() { one_server_setup; }
