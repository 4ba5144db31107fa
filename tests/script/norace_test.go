//go:build !race

package script

var raceFlags []string
