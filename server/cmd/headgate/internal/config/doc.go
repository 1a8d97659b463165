// Package config reads the settings of a node from the command line, the environment and a file, and converts them to
// the options of other packages. The command line takes precedence over the environment, and the environment over the
// file.
package config
