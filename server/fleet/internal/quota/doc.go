// Package quota counts the units consumed under a limit. A [Plan] is a limit prepared for counting, and a [Counter] is
// the state of one key.
package quota
