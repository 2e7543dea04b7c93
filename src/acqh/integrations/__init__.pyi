from acqh.integrations.documents import DocumentStore as DocumentStore
