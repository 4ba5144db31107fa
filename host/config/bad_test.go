package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testEnv is the environment of every test.
func testEnv(name string) (string, bool) {
	value, ok := map[string]string{
		"BARE": "30", "NUL": "a\x00b", "EMPTY": "", "ADDRESS": "redis.internal:6379", "SIZE": "2KiB",
		"DOLLAR": "${BARE}$$",
	}[name]
	return value, ok
}

// TestBad: each file in testdata/bad is refused with the text beside it.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := Load(file, nil, testEnv)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("want an *Error, got %v", err)
			}
			for _, f := range e.Faults {
				if f.File != file || f.Line < 1 || f.Column < 1 || f.Message == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("the text shows a secret")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run with -update to write it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s\nwant\n%s", file, got, want)
	}
}
