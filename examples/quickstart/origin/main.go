// Command origin is the HTTP source of the quickstart's namespace `clock`: it
// tells the time in a zone of the tz database, and prints each request, so that
// one sees which reads reach it.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"time"
	_ "time/tzdata"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8090", "address to listen on")
	flag.Parse()
	http.HandleFunc("GET /time", tell)
	log.Printf("origin on http://%s/time?zone=Europe/Berlin", *address)
	server := &http.Server{Addr: *address, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func tell(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("zone")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		log.Printf("%q: no such zone", name)
		http.Error(w, "no such zone", http.StatusNotFound)
		return
	}
	now := time.Now().In(zone)
	log.Printf("%q: %s", name, now.Format(time.TimeOnly))
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"zone": name, "time": now.Format(time.RFC3339)})
}
