// Package ui is the web console. It shows the nodes of a fleet with their sync lag and over-admission, the rules with
// their history, which rules apply to a request, and what a client has left.
//
// The console is a program for browsers, written in TypeScript. Its source is in src. Vite builds it into dist, which
// is checked in, so that Headgate can be built without Node. make ui builds dist again, and make test fails if dist
// does not match src.
//
// [Handler] serves the files in dist. The console reads its data from the API of the admin listener, with the token
// that the user has entered at sign-in.
package ui
