/* A second reading of the encoder and the decoder (reading.c), which a search with edits calls instead of the first. */
#pragma once
#include "transformer.h"

/* Whether some position sees what comes after it, so that every step reads all tokens again. */
int jk_is_unmasked(const edit_list *edits);

/* Take a source through the encoder and write its memories, sentence `b` of at most S tokens, of the decoder's layers.
 */
void jk_read_source(const stack *e, const stack *d, const edit_list *edits, const int64_t *tokens, int64_t length,
                    const float *positions, int64_t b, int64_t S);
