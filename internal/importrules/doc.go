// Package importrules tests the dependencies: a program that imports Headgate gets only Headgate and the standard
// library, and each package imports only the ones below it.
package importrules
