// Package config reads the settings of a node from the command line, the environment and a file, in this order of
// precedence, and converts them to the options of other packages.
package config
