-- The index of verdicts, beside Prefect's own tables: `index = "postgresql+psycopg://prefect@postgres/prelaunch"`.
CREATE DATABASE prelaunch OWNER prefect;
