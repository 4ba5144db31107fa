package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: whatever a file holds, Load answers with a configuration or with
// faults that have a place.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/dev") || strings.Contains(text, "/proc") {
			t.Skip("reading some of these files never ends")
		}
		c, err := Load("testdata/good/fuzz.yaml", strings.NewReader(text), testEnv)
		if err == nil {
			if len(c.Namespaces) == 0 || c.Listen.HTTP.Address == "" || c.Redis.Mode == "" {
				t.Errorf("incomplete: %+v", c)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || c != nil || len(e.Faults) == 0 {
			t.Fatalf("config %v, error %v", c, err)
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for _, fault := range e.Faults {
			if fault.Line < 1 || fault.Line > lines+1 || fault.Column < 1 || fault.Message == "" {
				t.Errorf("fault without a place: %+v", fault)
			}
		}
	})
}
