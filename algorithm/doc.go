// Package algorithm decides: one pure step for each algorithm, from a state, a time and a cost to a decision and the
// state after it.
//
// A [Plan] is a limit made ready: checked, its rate reduced to lowest terms. Its methods are the steps. A store keeps one
// [State] for every key and passes it in with the time; it holds whatever lock it needs meanwhile. Nothing here reads a
// clock, allocates for a state of fixed size, or uses floating point.
//
// # Time
//
// Time is whole microseconds since 1970. Every state remembers how far time has come for it and never goes back: a
// caller with an older time is decided at the state's own time, or as if no time had passed, whichever gives less.
//
// # Exactness
//
// A state holds what was consumed in whole units, and when; never a product of limit and time. That is why a limit may
// change between two steps on one state. Products of a unit count and a time are formed only inside a step, with 128
// bits, and nothing is rounded on the way to a decision but the weight of a sliding-window, to the nearest unit. Counts
// are below 2^40 and periods below 2^45 µs, so that 53-bit Lua can do the same by long division, digit by digit.
//
// # Adding an algorithm
//
// One file in Go, one in Lua and one of cases under testdata, found by the algorithm's name, and one line in the list of
// package headgate: see CONTRIBUTING.md.
//
// # Twins
//
// [Lua] returns the steps of an algorithm as a script that Redis runs. It decides, and changes the state, exactly as the
// steps here do; what remains and when to come back is worked out by these, from the state that the script found.
package algorithm
