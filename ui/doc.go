// Package ui is the web console: it shows the nodes of a fleet, how late their news is and what passed beyond limits, the rules with
// their history, what a request would meet, and what a client has left.
//
// The console is a program for browsers, written in TypeScript in src. What Vite builds of it is in dist, which is checked in, so
// that building Headgate needs no Node: make ui builds it again, and make test fails if dist is not what src builds.
//
// [Handler] serves it. It asks the rest of the admin listener for everything it shows, with the token of whoever has signed in, and
// knows nothing by itself.
package ui
