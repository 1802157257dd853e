// Command go calls a server with the client that oapi-codegen made: it inserts a chunk and finds the submission by its meta.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/quern-queue/quern/sdk/openapi/go/generated"
)

func main() {
	ctx := context.Background()
	c, err := generated.NewClientWithResponses(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var company generated.MetaValue
	if err := company.FromMetaValue1(11); err != nil {
		log.Fatal(err)
	}
	count, template := int64(1), "row {index}"
	inserted, err := c.InsertWithResponse(ctx, "default", nil, generated.NewSubmission{
		Meta: &generated.Meta{"company": company}, Chunks: generated.Chunks{Count: &count, Template: &template},
	})
	if err != nil || inserted.JSON201 == nil {
		log.Fatalf("insert: %v, %s", err, inserted.Body)
	}
	found, err := c.ListSubmissionsWithResponse(ctx, "default", &generated.ListSubmissionsParams{Meta: &map[string]string{"company": "11"}})
	if err != nil || found.JSON200 == nil {
		log.Fatalf("list: %v, %s", err, found.Body)
	}
	if len(found.JSON200.Items) != 1 || found.JSON200.Items[0].Id != inserted.JSON201.Id {
		log.Fatalf("listed %+v, want %s alone", found.JSON200.Items, inserted.JSON201.Id)
	}
	refused, err := c.ListSubmissionsWithResponse(ctx, "nowhere", nil)
	if err != nil || refused.ApplicationproblemJSON4XX == nil {
		log.Fatalf("a queue that does not exist: %v, %s", err, refused.Body)
	}
	fmt.Println("oapi-codegen: inserted and found", inserted.JSON201.Id)
}
