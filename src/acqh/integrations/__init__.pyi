from acqh.integrations._documents import DocumentStore as DocumentStore
