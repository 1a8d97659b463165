// Package quota turns a limit into a Plan, which computes the units that count as consumed under the limit.
package quota
