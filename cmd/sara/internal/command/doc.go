// Package command is sara's command line. Each command is in a file of its own, with its flags, its help and its code.
//
// The type commands defines all commands, for kong. Program.Run builds only the part of this grammar that the command line names. It then
// takes three steps, each with its own exit status if it fails:
//
//   - Parse: kong assigns arguments and flags, and the text of each setting from its flag, its variable or the settings file. The status is
//     ExitUsage for a command line that cannot be parsed or has an empty argument, and ExitError for a settings file that is wrong.
//   - Settings: package settings parses all settings of the command at once, so that all wrong ones are reported together. The status is
//     ExitUsage if the wrong value of one is that of a flag, and ExitError otherwise: also for a file that a flag names.
//   - Run: kong calls the command's method Run, and passes those parameters that it declares: a context, a Console, the Loader of the
//     settings and the build. An error is printed with the origin of the setting that it is about, and with advice if its text names no
//     fix. The status is ExitUsage if a value of the command line could never be valid, 128 plus the number of the signal if an
//     Interruption ended the context, and ExitError otherwise.
//
// To add a command, write a struct with a method Run in a file of its own, and add a field to commands or to a group, with help and an
// example. The struct embeds the groups of settings that it needs; recordFlags opens the database and prints records, as a table or JSON.
// Run prints through package console, and returns errors. Tests check that every command has an example that parses, and that completion
// knows it.
//
// The package has no state. Signals and resource limits belong to the process, so they are in package main.
package command
