// Sara serves the Search Analytics Read API over Google Search Console, and administers what it serves.
//
// One binary, one file a subcommand: serve runs the API, demo runs all of it with a simulated Search Console, and the
// others change or list what the database holds. Every one of those prints a table for people or, with --json, one JSON
// object or array for programs.
//
// A setting is given by flag, by environment (SARA_…) or by a YAML file, in that order of precedence. Errors go to
// standard error and say what to do; the exit status is 1 for them and 2 for a command line that is not understood. No
// output, log or error holds a secret, with one exception: key create prints the key that it makes, once.
package main
