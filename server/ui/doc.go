// Package ui is the web console. It shows the nodes of a fleet with their sync lag and over-admission, the rules with
// their history, which rules apply to a request, and what a client has left.
//
// The console is a program for browsers, written in TypeScript in src. What Vite builds of it is in dist, which is
// checked in, so that building Headgate needs no Node: make ui builds it again, and make test fails if dist is not what
// src builds.
//
// [Handler] serves it. The console reads everything it shows from the API of the admin listener, with the token of the
// user who has signed in.
package ui
