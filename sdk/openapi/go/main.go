// Command go calls a server with the client that oapi-codegen made: it inserts a chunk, finds the submission by its meta, and reserves
// the chunk with a strategy that is a tree of blocks.
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
	if err := reserve(ctx, c, company); err != nil {
		log.Fatal(err)
	}
	refused, err := c.ListSubmissionsWithResponse(ctx, "nowhere", nil)
	if err != nil || refused.ApplicationproblemJSON4XX == nil {
		log.Fatalf("a queue that does not exist: %v, %s", err, refused.Body)
	}
	fmt.Println("oapi-codegen: inserted and found", inserted.JSON201.Id)
}

// reserve builds SelectOnly("company", 11, OrElse(OldestFirst, Random)), and reads which of its kinds the content of the chunk is.
func reserve(ctx context.Context, c *generated.ClientWithResponses, company generated.MetaValue) error {
	var oldest, either, random generated.StrategyNode
	var block, inner generated.StrategyBlock
	var whole generated.Strategy
	for _, err := range []error{
		oldest.FromStrategyNode0("oldest_first"),
		inner.FromRandomBlock(generated.RandomBlock{Type: generated.Random}),
		random.FromStrategyBlock(inner),
		inner.FromOrElseBlock(generated.OrElseBlock{Type: generated.OrElse, Branches: &[]generated.StrategyNode{oldest, random}}),
		either.FromStrategyBlock(inner),
		block.FromSelectOnlyBlock(generated.SelectOnlyBlock{Type: generated.SelectOnly, MetaField: "company", Value: company, Underlying: either}),
		whole.FromStrategyBlock(block),
	} {
		if err != nil {
			return err
		}
	}
	if kind, err := block.Discriminator(); err != nil || kind != "select_only" {
		return fmt.Errorf("the block is a %q, %v", kind, err)
	}
	got, err := c.ReserveWithResponse(ctx, "default", generated.ReserveRequest{Max: 1, Strategy: &whole})
	if err != nil || got.JSON200 == nil || len(got.JSON200.Reservations) != 1 {
		return fmt.Errorf("reserve: %v, %s", err, got.Body)
	}
	text, err := got.JSON200.Reservations[0].Content.AsText()
	if err != nil || text.Text != "row 0" {
		return fmt.Errorf("the content is %+v, %v", text, err)
	}
	return nil
}
