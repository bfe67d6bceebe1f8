// Package command is sara's command line: one file a command, with its flags, its help and what it does.
//
// The definition of all commands is the type commands, from which kong parses a command line. Run builds only the part that the command line
// names. It then works in three steps, each of which reports what is wrong and ends with an exit status of its own:
//
//   - parse: kong assigns arguments and flags, and the text of each setting from its flag, its variable or the settings file. A command line
//     that cannot be parsed, or has an empty flag, ends with ExitUsage.
//   - settings: package settings parses all settings of the command at once, so that all wrong ones are reported together. The status is
//     ExitError.
//   - run: the method Run of the command gets what it names among a context, a Console, the Loader of the settings and the build. Its error is
//     printed with the origin of the setting that it is about, and with advice if the text names no fix. The status is ExitError; ExitUsage if a
//     value of the command line is wrong whatever is stored; or 128 plus the number of the signal if the context was ended by an Interruption.
//
// A new command is a struct in a file of its own with a method Run, and a field of commands or of a group with help and an example. It embeds
// the groups of settings that it needs; storeFlags opens the database. It prints tables and JSON through package console, and errors are
// returned. Tests check that every command has an example that parses, and that completion knows it.
//
// The package has no state, and neither signals nor limits: what belongs to a process is in package main.
package command
