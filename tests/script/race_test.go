//go:build race

package script

// The binary is built as the test is.
var raceFlags = []string{"-race"}
