// Package importrules holds the tests that keep the library free of dependencies: what a program gets when it imports
// Headgate is Headgate and the standard library, and each package knows only the ones below it.
package importrules
