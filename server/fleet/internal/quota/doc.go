// Package quota prepares limits for counting, and counts units under them.
package quota
